#!/bin/bash
set -e
sed -E 's/[A-Za-z0-9._-]+@[A-Za-z0-9-]+(\.[A-Za-z]+)+/<address>/g' mail.txt > masked.txt
