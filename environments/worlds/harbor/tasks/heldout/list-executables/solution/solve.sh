#!/bin/bash
set -e
find tools -type f -perm -u+x -printf '%f\n' | sort > runnable.txt
