#!/bin/bash
set -e
cp config.ini config.ini.bak
sed -i 's/^port = .*/port = 9090/' config.ini
