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

check "dawn.txt is moved" says flat/dawn.txt '6 am'
check "noon.txt is moved" says flat/noon.txt '12 am'
check "dusk.txt is moved" says flat/dusk.txt '8 pm'
check "no file is left behind" eval '[ -d flat ] && [ -z "$(find photos -type f 2> /dev/null)" ]'
python3 -I -c "print($passed / $total)" > /logs/verifier/reward.txt
