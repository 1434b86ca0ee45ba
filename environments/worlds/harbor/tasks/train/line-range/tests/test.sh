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

check "the first of them" eval '[ "$(head -n 1 excerpt.txt)" = "line 10 of the book" ]'
check "all of them" says excerpt.txt $'line 10 of the book\nline 11 of the book\nline 12 of the book\nline 13 of the book\nline 14 of the book'
python3 -I -c "print($passed / $total)" > /logs/verifier/reward.txt
