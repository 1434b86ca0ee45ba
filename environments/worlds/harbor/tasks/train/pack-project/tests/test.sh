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

check "it is a gzipped tar" eval 'tar -tzf project.tar.gz'
check "main.c is in it" eval 'tar -xzOf project.tar.gz project/main.c | grep -q main'
check "lib/a.c is in it" eval 'tar -tzf project.tar.gz project/lib/a.c'
check "no .tmp is in it" eval 'tar -tzf project.tar.gz && ! tar -tzf project.tar.gz | grep -q tmp'
python3 -I -c "print($passed / $total)" > /logs/verifier/reward.txt
