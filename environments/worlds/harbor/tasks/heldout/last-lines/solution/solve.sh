#!/bin/bash
set -e
tail -q -n 2 one.log two.log > ends.txt
