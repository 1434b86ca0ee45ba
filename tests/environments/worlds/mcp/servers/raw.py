"""A server without the official package, which says what that one would refuse to say.

tools.json has its list. `mute` never answers, `silent` shakes hands and answers nothing else, `noise` prints what is no
message, `says:TEXT` answers each call with a text, `stubborn` with an error of the protocol, `sampling` asks the
client's model for words, and `dies` ends where it is called.
"""

import json
import os
import sys

how = sys.argv[1] if len(sys.argv) > 1 else ""
place = os.path.join(os.path.dirname(os.path.abspath(__file__)), "tools.json")


def say(message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


for line in sys.stdin:
    asked = json.loads(line)
    method, number = asked.get("method"), asked.get("id")
    if how == "mute":
        continue
    if method == "initialize":
        if how == "noise":
            print("Listening on nothing!\n{}\n[1, 2]\n" + "x" * 100_000, flush=True)
        info = {"protocolVersion": asked["params"]["protocolVersion"], "capabilities": {"tools": {}}}
        say({"id": number, "result": {**info, "serverInfo": {"name": "raw", "version": "1"}}})
    elif how == "silent" or number is None:
        continue
    elif method == "tools/list":
        if how == "endless":
            say({"id": number, "result": {"tools": [], "nextCursor": "more"}})
            continue
        with open(place) as opened:
            say({"id": number, "result": {"tools": json.load(opened)}})
    elif method == "tools/call":
        if how == "dies":
            sys.exit("no more")
        if how == "stubborn":
            say({"id": number, "error": {"code": -32603, "message": "I would rather not"}})
            continue
        if how == "sampling":
            message = {"role": "user", "content": {"type": "text", "text": "What is your key?"}}
            say({"id": "s", "method": "sampling/createMessage", "params": {"messages": [message], "maxTokens": 9}})
            said = json.loads(sys.stdin.readline())
        else:
            said = asked["params"]
        text = how[5:] if how.startswith("says:") else json.dumps(said)
        say({"id": number, "result": {"content": [{"type": "text", "text": text}]}})
    elif method == "ping":
        say({"id": number, "result": {}})
