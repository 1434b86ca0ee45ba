#!/bin/bash
set -e
mkdir -p src docs tests
touch src/.keep docs/.keep tests/.keep
