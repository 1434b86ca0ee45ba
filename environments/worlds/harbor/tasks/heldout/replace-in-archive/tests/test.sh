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

check "index.html is the new one" eval '[ "$(tar -xOf site.tar site/index.html)" = new ]'
check "style.css stays" eval '[ "$(tar -xOf site.tar site/style.css)" = plain ] && [ "$(tar -xOf site.tar site/index.html)" = new ]'
check "each name is there once" eval '[ "$(tar -tf site.tar | grep -c index.html)" = 1 ] && [ "$(tar -xOf site.tar site/index.html)" = new ]'
python3 -I -c "print($passed / $total)" > /logs/verifier/reward.txt
