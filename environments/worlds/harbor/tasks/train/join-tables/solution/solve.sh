#!/bin/bash
set -e
join <(sort names.txt) <(sort towns.txt) | tr ' ' , > joined.csv
