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

check "two blanks in a name" says .out/1 $'5\n3'
check "a name with a blank" says .out/2 7
check "two names" says .out/3 $'7\n5'
python3 -I -c "print($passed / $total)" > /logs/verifier/reward.txt
