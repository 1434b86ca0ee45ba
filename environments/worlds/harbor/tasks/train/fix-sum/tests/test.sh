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

check "several numbers" says .out/1 60
check "one number" says .out/2 5
check "negative numbers" says .out/3 -3
python3 -I -c "print($passed / $total)" > /logs/verifier/reward.txt
