#!/bin/bash
set -e
tail -n +2 people.csv | cut -d, -f2 > names.txt
