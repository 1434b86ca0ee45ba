#!/bin/bash
set -e
find home -maxdepth 1 -name '.*' -type f -printf '%f\n' | sort > hidden.txt
