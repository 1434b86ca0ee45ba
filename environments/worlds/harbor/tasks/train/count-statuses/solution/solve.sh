#!/bin/bash
set -e
awk '{n[$NF]++} END {for (s in n) print s, n[s]}' access.log | sort -n > statuses.txt
