#!/bin/bash
set -e
chmod u+x run.sh
./run.sh
