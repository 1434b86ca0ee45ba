#!/bin/bash
set -e
find tree -type f | wc -l > count.txt
