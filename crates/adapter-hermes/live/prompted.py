#!/usr/bin/env python3
"""A gateway that somebody else drives as well: prompted.py PLAY COUNT PROGRAM [ARGUMENT...]

Starts the program as a gateway, passes everything on between it and whoever started this one, and
besides has it play PLAY in a session of its own. Ends it once COUNT children have ended.
"""

import json
import subprocess
import sys
import threading

play, count, *command = sys.argv[1:]
gateway = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8")
writing = threading.Lock()


def write(line):
    with writing:
        gateway.stdin.write(line)
        gateway.stdin.flush()


def ask(name, method, **params):
    write(json.dumps({"jsonrpc": "2.0", "id": name, "method": method, "params": params}) + "\n")


def pass_on():
    for line in sys.stdin:
        write(line)
    end()


def end():
    with writing:
        gateway.stdin.close()


threading.Thread(target=pass_on, daemon=True).start()
ended = 0
for line in gateway.stdout:
    frame = json.loads(line)
    event = frame.get("params", {}).get("type")
    if event == "gateway.ready":
        ask("prompt-1", "session.create", cols=100)
    if frame.get("id") == "prompt-1":
        session = frame["result"]["session_id"]
        ask("prompt-2", "prompt.submit", session_id=session, text=f"Please begin. <<{play}>>")
    if not str(frame.get("id", "")).startswith("prompt-"):
        sys.stdout.write(line)
        sys.stdout.flush()
    ended += event == "subagent.complete"
    if event == "subagent.complete" and ended == int(count):
        end()
sys.exit(gateway.wait())
