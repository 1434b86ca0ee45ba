#!/bin/bash
set -e
tar -xf site.tar
cp new.html site/index.html
tar -cf site.tar site
rm -r site
