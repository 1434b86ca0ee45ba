#!/bin/bash
set -e
sed -i 's/[[:blank:]]*$//' poem.txt
