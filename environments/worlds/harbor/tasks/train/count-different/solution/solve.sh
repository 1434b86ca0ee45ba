#!/bin/bash
set -e
sort -u colours.txt | wc -l > different.txt
