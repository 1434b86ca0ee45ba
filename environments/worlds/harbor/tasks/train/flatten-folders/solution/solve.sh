#!/bin/bash
set -e
mkdir -p flat
find photos -type f -exec mv {} flat/ ';'
