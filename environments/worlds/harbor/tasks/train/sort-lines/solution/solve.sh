#!/bin/bash
set -e
sort words.txt > sorted.txt
