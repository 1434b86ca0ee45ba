#!/bin/bash
set -e
code=0
./probe.sh 2> problem.txt > /dev/null || code=$?
echo $code > code.txt
