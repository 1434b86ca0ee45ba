#!/bin/bash
set -e
tries=1
until ./flaky.sh; do tries=$((tries + 1)); done
echo $tries > tries.txt
