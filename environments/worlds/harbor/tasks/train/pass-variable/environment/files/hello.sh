#!/bin/sh
echo "Welcome, ${GUEST:-stranger}!"
