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

check "the service was started" says port 4711
check "state.txt has the port" says state.txt 'listening on 4711'
python3 -I -c "print($passed / $total)" > /logs/verifier/reward.txt
