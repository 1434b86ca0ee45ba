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

check "200 is counted" eval 'grep -qx "200 5" statuses.txt'
check "404 is counted" eval 'grep -qx "404 3" statuses.txt'
check "all are there in order" says statuses.txt $'200 5\n301 1\n404 3\n500 1'
python3 -I -c "print($passed / $total)" > /logs/verifier/reward.txt
