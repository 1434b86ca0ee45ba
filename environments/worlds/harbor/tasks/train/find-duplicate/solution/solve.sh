#!/bin/bash
set -e
cd texts
sha256sum * | sort | uniq -w 64 -D | awk '{print $2}' | sort > ../same.txt
