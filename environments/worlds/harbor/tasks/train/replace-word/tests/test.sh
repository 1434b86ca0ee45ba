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

check "one.txt is changed" says pages/one.txt 'The color of the sky.'
check "two.txt is changed everywhere" says pages/two.txt 'A color, and a color.'
check "keep.md is left alone" eval 'says pages/keep.md "colour" && grep -q color pages/one.txt'
python3 -I -c "print($passed / $total)" > /logs/verifier/reward.txt
