#!/bin/bash
set -e
cat > turn.py <<'END'
import sys
for line in sys.stdin:
    print(' '.join(reversed(line.split())))
END
