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

check "the first draft is copied" says drafts/draft-roof.txt 'slate or tile'
check "the second draft is copied" says drafts/draft-garden.txt 'roses along the wall'
check "nothing else is copied" eval '[ $(ls drafts | wc -l) = 2 ]'
check "the originals stay" eval '[ -d drafts ] && [ $(ls inbox | wc -l) = 4 ]'
python3 -I -c "print($passed / $total)" > /logs/verifier/reward.txt
