#!/bin/bash
set -e
for each in notes/*.txt; do mv "$each" "${each%.txt}.md"; done
