#!/bin/bash
set -e
tr -s ' ' '\n' < song.txt | sort | uniq -c | sort -rn | head -n 2 | awk '{print $2, $1}' > top.txt
