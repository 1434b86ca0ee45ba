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

check "the first name" eval '[ "$(sed -n 1p same.txt)" = brook.txt ]'
check "the second name" eval '[ "$(sed -n 2p same.txt)" = pond.txt ]'
check "nothing else" says same.txt $'brook.txt\npond.txt'
python3 -I -c "print($passed / $total)" > /logs/verifier/reward.txt
