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

check "2023.txt has mode 444" eval '[ $(stat -c %a archive/2023.txt) = 444 ]'
check "old/2019.txt has mode 444" eval '[ $(stat -c %a archive/old/2019.txt) = 444 ]'
check "contents stay" eval 'says archive/2023.txt "good" && [ $(stat -c %a archive/2023.txt) = 444 ]'
python3 -I -c "print($passed / $total)" > /logs/verifier/reward.txt
