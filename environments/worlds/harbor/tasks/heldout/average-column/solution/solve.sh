#!/bin/bash
set -e
awk -F, 'NR > 1 {s += $3; n++} END {printf "%d\n", s / n}' weather.csv > average.txt
