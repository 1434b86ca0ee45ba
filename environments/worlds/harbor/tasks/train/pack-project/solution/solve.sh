#!/bin/bash
set -e
tar -czf project.tar.gz --exclude='*.tmp' project
