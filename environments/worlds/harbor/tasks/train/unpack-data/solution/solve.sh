#!/bin/bash
set -e
mkdir out
tar -xzf data.tar.gz -C out
find out -type f | wc -l > count.txt
