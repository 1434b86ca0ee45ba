#!/bin/bash
# Each check is a line of TAP; the reward is the share that passed.
total=0 passed=0
check() {
  local name=$1
  shift
  total=$((total + 1))
  if "$@" > /dev/null 2>&1; then passed=$((passed + 1)); else printf 'not '; fi
  echo "ok $total - $name"
}
says() { [ "$(cat "$1")" = "$2" ]; }

check "pictures holds the two pictures" eval '[ -f pictures/cat.png ] && [ -f pictures/dog.png ] && [ $(ls pictures | wc -l) = 2 ]'
check "tables holds the two tables" eval '[ -f tables/q1.csv ] && [ -f tables/q2.csv ] && [ $(ls tables | wc -l) = 2 ]'
check "none is left in /app" eval '[ -d tables ] && ! ls *.png *.csv'
python3 -I -c "print($passed / $total)" > /logs/verifier/reward.txt
