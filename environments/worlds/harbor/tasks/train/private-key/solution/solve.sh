#!/bin/bash
set -e
chmod 600 keys/id
chmod 644 keys/id.pub
