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

check "the lines are sorted" says sorted.txt $'apple\ncherry\ndamson\nfig\nmedlar\npear\nplum\nquince\nsloe'
check "no line is lost" eval '[ $(wc -l < sorted.txt) = 9 ]'
python3 -I -c "print($passed / $total)" > /logs/verifier/reward.txt
