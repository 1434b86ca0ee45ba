#!/bin/sh
echo testing valves
echo valve 3 does not close >&2
exit 7
