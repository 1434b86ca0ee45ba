#!/bin/bash
set -e
sort -u a.txt b.txt > all.txt
