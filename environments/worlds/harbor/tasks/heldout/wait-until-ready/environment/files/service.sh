#!/bin/sh
sleep 0.3
echo 4711 > /app/port
exec sleep 600
