#!/bin/bash
set -e
ls -S reports | head -n 1 > largest.txt
