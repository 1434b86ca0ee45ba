#!/bin/bash
set -e
find store -type f -exec cat {} + | wc -c > bytes.txt
