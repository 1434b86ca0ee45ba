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

check "the copy is the original" says config.ini.bak $'[server]\nhost = localhost\nport = 8080\nworkers = 4'
check "the port is set" eval 'grep -qx "port = 9090" config.ini'
check "nothing else changed" says config.ini $'[server]\nhost = localhost\nport = 9090\nworkers = 4'
python3 -I -c "print($passed / $total)" > /logs/verifier/reward.txt
