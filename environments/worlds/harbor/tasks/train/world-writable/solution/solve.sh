#!/bin/bash
set -e
find shared -type f -perm -o+w -printf '%f\n' | sort > found.txt
chmod o-w shared/*
