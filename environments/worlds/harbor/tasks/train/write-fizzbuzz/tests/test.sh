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

check "up to 5" says .out/1 $'1\n2\nfizz\n4\nbuzz'
check "up to 15" says .out/2 $'1\n2\nfizz\n4\nbuzz\nfizz\n7\n8\nfizz\nbuzz\n11\nfizz\n13\n14\nfizzbuzz'
check "up to 1" says .out/3 1
python3 -I -c "print($passed / $total)" > /logs/verifier/reward.txt
