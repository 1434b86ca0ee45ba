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

check "a joined line" eval 'grep -qx "2,bo,bern" joined.csv'
check "all joined lines" says joined.csv $'1,al,oslo\n2,bo,bern\n4,di,rome'
python3 -I -c "print($passed / $total)" > /logs/verifier/reward.txt
