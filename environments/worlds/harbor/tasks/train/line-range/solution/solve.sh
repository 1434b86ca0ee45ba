#!/bin/bash
set -e
sed -n 10,14p book.txt > excerpt.txt
