#!/bin/bash
set -e
find data -type f -empty -delete
