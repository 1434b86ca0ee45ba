#!/bin/bash
set -e
awk '$2 == "ERROR"' app.log > errors.txt
