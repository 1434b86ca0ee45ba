#!/bin/bash
set -e
sed -i 's/\r$//' letter.txt
