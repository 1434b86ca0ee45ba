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

check "monday.md is the renamed file" eval 'says notes/monday.md "Water the ferns." && [ ! -e notes/monday.txt ]'
check "tuesday.md is the renamed file" eval 'says notes/tuesday.md "Call the plumber." && [ ! -e notes/tuesday.txt ]'
check "friday.md is the renamed file" eval 'says notes/friday.md "Return two books." && [ ! -e notes/friday.txt ]'
check "picture.svg stays" eval '[ -f notes/picture.svg ] && [ ! -e notes/monday.txt ]'
python3 -I -c "print($passed / $total)" > /logs/verifier/reward.txt
