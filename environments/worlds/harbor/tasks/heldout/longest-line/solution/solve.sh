#!/bin/bash
set -e
awk 'length > most {most = length; line = $0} END {print line}' mixed.txt > longest.txt
