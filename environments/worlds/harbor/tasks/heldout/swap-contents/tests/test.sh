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

check "left.txt has the other text" says left.txt east
check "right.txt has the other text" says right.txt west
check "no other file is left" eval '[ $(ls -A | wc -l) = 2 ] && grep -q east left.txt'
python3 -I -c "print($passed / $total)" > /logs/verifier/reward.txt
