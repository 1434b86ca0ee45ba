#!/bin/bash
set -e
tr '\t' , < table.tsv > table.csv
