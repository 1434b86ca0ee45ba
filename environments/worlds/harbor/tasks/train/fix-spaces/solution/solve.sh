#!/bin/bash
set -e
sed -i 's/\$@/"$@"/; s/< \$name/< "$name"/' sizes.sh
