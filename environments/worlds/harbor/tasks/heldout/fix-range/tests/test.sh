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

check "up to 3" says .out/1 $'1\n4\n9'
check "up to 1" says .out/2 1
check "up to 6" says .out/3 $'1\n4\n9\n16\n25\n36'
python3 -I -c "print($passed / $total)" > /logs/verifier/reward.txt
