#!/bin/sh
echo $$ > /app/serve.log
exec sleep 600
