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

check "serve.sh has started" eval 'grep -qE "^[0-9]+$" serve.log'
check "serve.pid has its number" eval '[ -s serve.pid ] && [ "$(cat serve.pid)" = "$(cat serve.log)" ]'
python3 -I -c "print($passed / $total)" > /logs/verifier/reward.txt
