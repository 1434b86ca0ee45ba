#!/bin/bash
set -e
gzip logs/*.log
