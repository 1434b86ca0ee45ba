#!/bin/bash
set -e
find archive -type f -exec chmod 444 {} +
