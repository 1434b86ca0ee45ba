#!/bin/bash
set -e
tar -xOf backup.tar etc/app.conf > app.conf
