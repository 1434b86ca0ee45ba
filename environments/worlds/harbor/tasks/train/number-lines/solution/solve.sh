#!/bin/bash
set -e
awk '{print NR ": " $0}' steps.txt > numbered.txt
