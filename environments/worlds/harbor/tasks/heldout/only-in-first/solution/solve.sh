#!/bin/bash
set -e
comm -23 <(sort ordered.txt) <(sort delivered.txt) > missing.txt
