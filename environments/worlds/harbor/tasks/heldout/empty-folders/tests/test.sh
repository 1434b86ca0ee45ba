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

check "build is gone, and src is not" eval '[ ! -e project/build ] && [ -d project/src ]'
check "src/old is gone, and src is not" eval '[ ! -e project/src/old ] && [ -d project/src ]'
check "src stays" eval '[ ! -e project/build ] && [ -f project/src/main.txt ]'
python3 -I -c "print($passed / $total)" > /logs/verifier/reward.txt
