#!/bin/bash
set -e
python3 - <<'END'
import json
said = json.load(open('settings.json'))
said.update(debug=False, version=2)
json.dump(said, open('settings.json', 'w'))
END
