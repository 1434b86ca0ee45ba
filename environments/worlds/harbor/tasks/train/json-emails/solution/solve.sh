#!/bin/bash
set -e
python3 -c "import json; [print(u['email']) for u in json.load(open('users.json')) if u['active']]" > emails.txt
