#!/bin/sh
cd /app
echo x >> .tried
[ $(wc -l < .tried) -ge 4 ] || exit 1
echo connected > result.txt
