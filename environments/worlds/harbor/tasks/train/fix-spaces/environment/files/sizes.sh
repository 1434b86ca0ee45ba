#!/bin/bash
for name in $@; do
  wc -c < $name
done
