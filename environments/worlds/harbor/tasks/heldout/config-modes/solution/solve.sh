#!/bin/bash
set -e
find conf -name '*.conf' -exec chmod 640 {} +
