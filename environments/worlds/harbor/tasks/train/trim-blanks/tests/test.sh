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

check "no line ends with a blank" eval '[ -s poem.txt ] && ! grep -qP "[ \t]$" poem.txt'
check "the words stay" says poem.txt $'The rain came down\non slate and thatch\nand on the cat\nwho did not mind'
python3 -I -c "print($passed / $total)" > /logs/verifier/reward.txt
