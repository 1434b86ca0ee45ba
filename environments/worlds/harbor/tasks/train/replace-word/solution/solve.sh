#!/bin/bash
set -e
sed -i 's/colour/color/g' pages/*.txt
