#!/bin/bash
set -e
cd essays
for each in *; do echo "$each $(wc -w < $each)"; done > ../words.txt
