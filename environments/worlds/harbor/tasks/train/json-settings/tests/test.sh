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

check "debug is false" eval 'python3 -I -m json.tool --compact settings.json | grep -q "debug\":false"'
check "version is 2" eval 'python3 -I -m json.tool --compact settings.json | grep -q "version\":2"'
check "all else stays" says <(python3 -I -m json.tool --compact --sort-keys settings.json) '{"debug":false,"name":"shop","ports":[80,443],"version":2}'
python3 -I -c "print($passed / $total)" > /logs/verifier/reward.txt
