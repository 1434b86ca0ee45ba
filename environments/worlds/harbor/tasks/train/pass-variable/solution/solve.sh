#!/bin/bash
set -e
GUEST='Mira Olsen' ./hello.sh > hello.txt
