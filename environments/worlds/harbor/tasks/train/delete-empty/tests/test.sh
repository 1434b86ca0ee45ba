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

check "data/a.csv alone is gone from data" eval '[ ! -e data/a.csv ] && [ -s data/b.csv ]'
check "data/deep/er/void alone is gone from there" eval '[ ! -e data/deep/er/void ] && [ -s data/deep/er/full ]'
check "data/deep/blank.log is gone, and its neighbours are not" eval '[ ! -e data/deep/blank.log ] && [ -s data/deep/er/full ]'
check "what holds something stays" eval '[ ! -e data/a.csv ] && [ -s data/b.csv ] && [ -s data/deep/er/full ]'
python3 -I -c "print($passed / $total)" > /logs/verifier/reward.txt
