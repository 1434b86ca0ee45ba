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

check "main.conf has mode 640" eval '[ $(stat -c %a conf/main.conf) = 640 ]'
check "sites/a.conf has mode 640" eval '[ $(stat -c %a conf/sites/a.conf) = 640 ]'
check "readme.txt has its mode" eval '[ $(stat -c %a conf/readme.txt) = 644 ] && [ $(stat -c %a conf/main.conf) = 640 ]'
python3 -I -c "print($passed / $total)" > /logs/verifier/reward.txt
