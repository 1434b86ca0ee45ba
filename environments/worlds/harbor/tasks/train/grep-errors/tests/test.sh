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

check "both errors are there" eval 'grep -q disk errors.txt && grep -q printer errors.txt'
check "no other line is there" says errors.txt $'08:02 ERROR disk 3 is full\n08:07 ERROR no route to printer'
python3 -I -c "print($passed / $total)" > /logs/verifier/reward.txt
