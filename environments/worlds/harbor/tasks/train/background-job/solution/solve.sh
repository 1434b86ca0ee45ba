#!/bin/bash
set -e
./serve.sh > /dev/null 2>&1 &
echo $! > serve.pid
while [ ! -s serve.log ]; do sleep 0.02; done
