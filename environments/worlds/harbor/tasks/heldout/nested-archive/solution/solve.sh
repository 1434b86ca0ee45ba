#!/bin/bash
set -e
tar -xzf outer.tar.gz
tar -xf inner.tar secret.txt
