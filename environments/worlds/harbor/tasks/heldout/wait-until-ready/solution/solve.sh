#!/bin/bash
set -e
./service.sh > /dev/null 2>&1 &
while [ ! -s port ]; do sleep 0.02; done
echo "listening on $(cat port)" > state.txt
