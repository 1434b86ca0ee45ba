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

check "mail.log.gz holds the log" eval '[ ! -e logs/mail.log ] && [ "$(gzip -cd logs/mail.log.gz)" = "3 letters" ]'
check "web.log.gz holds the log" eval '[ ! -e logs/web.log ] && [ "$(gzip -cd logs/web.log.gz)" = "9 pages" ]'
check "notes.txt is left alone" eval 'says logs/notes.txt "keep" && [ ! -e logs/web.log ]'
python3 -I -c "print($passed / $total)" > /logs/verifier/reward.txt
