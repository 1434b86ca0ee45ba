#!/bin/bash
set -e
cat > fizz.py <<'END'
import sys
for i in range(1, int(sys.argv[1]) + 1):
    print('fizz' * (i % 3 == 0) + 'buzz' * (i % 5 == 0) or i)
END
