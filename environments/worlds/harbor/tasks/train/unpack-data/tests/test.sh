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

check "x.txt is unpacked" says out/data/x.txt ex
check "deep/y.txt is unpacked" says out/data/deep/y.txt why
check "they are counted" says count.txt 3
python3 -I -c "print($passed / $total)" > /logs/verifier/reward.txt
