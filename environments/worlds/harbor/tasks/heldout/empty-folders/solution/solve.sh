#!/bin/bash
set -e
find project -mindepth 1 -type d -empty -delete
