#!/bin/bash
set -e
mv left.txt x
mv right.txt left.txt
mv x right.txt
