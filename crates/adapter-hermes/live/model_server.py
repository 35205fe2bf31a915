#!/usr/bin/env python3
"""A model for trials of the real gateway: it says what a play tells it to say.

Speaks the chat-completions protocol on 127.0.0.1, with the standard library only. A user message
that holds <<NAME>> chooses the play NAME; the turn is the number of answers the model has given
since. Prints its port, and goes on until its standard input ends.
"""

import json
import re
import sys
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Turn:
    """One answer: after a pause a text, calls of tools, or a refusal of the whole request."""

    text: str = ""
    calls: list = field(default_factory=list)
    pause: float = 0.2
    refusal: int = 0


def run(command, pause=0.2):
    return Turn(calls=[("terminal", {"command": command})], pause=pause)


def delegate(*tasks):
    jobs = [{"goal": f"{goal} <<{play}>>", "context": goal, **({"role": role} if role else {})} for goal, play, role in tasks]
    return Turn(calls=[("delegate_task", {"tasks": jobs})])


PLAYS = {
    "pair": [delegate(("First job", "short", None), ("Second job", "steps", None)), Turn("Both are on their way.")],
    "uneven": [delegate(("Endless job", "endless", None), ("Short job", "short", None)), Turn("Both are on their way.")],
    "endless_pair": [delegate(("Endless one", "endless", None), ("Endless two", "endless", None)), Turn("On their way.")],
    "tree": [delegate(("Lead", "lead", "orchestrator"), ("Leaf", "short", None)), Turn("On their way.")],
    "endless_tree": [delegate(("Lead", "endless_lead", "orchestrator")), Turn("On its way.")],
    "uneven_tree": [delegate(("Lead", "uneven_lead", "orchestrator")), Turn("On its way.")],
    "refused": [delegate(("Refused job", "refusal", None), ("Short job", "short", None)), Turn("On their way.")],
    "lead": [delegate(("Worker one", "short", None), ("Worker two", "steps", None)), Turn("Both workers are done.")],
    "endless_lead": [delegate(("Worker one", "endless", None), ("Worker two", "endless", None)), Turn("Never said.")],
    "uneven_lead": [delegate(("Endless worker", "endless", None), ("Short worker", "short", None)), Turn("What could be done is done.")],
    "short": [run("echo short"), Turn("The short job is done.")],
    "steps": [run("echo one"), run("sleep 1; echo two"), Turn("The job of two steps is done.")],
    "endless": [run("echo begin; sleep 300; echo end"), Turn("Never said.")],
    "refusal": [Turn(refusal=400)] * 20,
}
CHOICE = re.compile(r"<<([a-z_]+)>>")


def text_of(message):
    content = message.get("content") or ""
    if isinstance(content, list):
        content = " ".join(part.get("text", "") for part in content if isinstance(part, dict))
    return content


def choose(request):
    messages = request.get("messages") or []
    for place in range(len(messages) - 1, -1, -1):
        if messages[place].get("role") != "user":
            continue
        text = text_of(messages[place])
        # What came of background jobs returns as a message that quotes their goals.
        if text.lstrip().startswith("["):
            return Turn("Noted.")
        found = CHOICE.findall(text)
        if found:
            if not request.get("tools"):
                return Turn("A title")
            answered = sum(m.get("role") == "assistant" for m in messages[place + 1 :])
            play = PLAYS.get(found[-1], [])
            return play[answered] if answered < len(play) else Turn("That was all.")
    return Turn("ok")


class Model(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def whole(self, status, body):
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self):
        model = {"id": "scripted", "object": "model", "created": 1, "owned_by": "trial", "context_length": 131072}
        self.whole(200, {"object": "list", "data": [model]})

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}")
        if not self.path.endswith("/chat/completions"):
            return self.whole(404, {"error": {"message": "no such thing here"}})
        turn = choose(request)
        time.sleep(turn.pause)
        try:
            if turn.refusal:
                self.whole(turn.refusal, {"error": {"message": "the model refuses", "type": "invalid_request_error"}})
            elif request.get("stream"):
                self.streamed(request, turn)
            else:
                message = {"role": "assistant", "content": turn.text or None, **self.calls(turn)}
                self.whole(200, self.chunk(request, "chat.completion", "message", message, turn, USAGE))
        except (BrokenPipeError, ConnectionResetError):
            pass

    def calls(self, turn):
        made = [
            {
                "index": n,
                "id": f"call_{time.monotonic_ns()}_{n}",
                "type": "function",
                "function": {"name": name, "arguments": json.dumps(arguments)},
            }
            for n, (name, arguments) in enumerate(turn.calls)
        ]
        return {"tool_calls": made} if made else {}

    def chunk(self, request, kind, key, value, turn, usage=None, ends=True):
        reason = ("tool_calls" if turn.calls else "stop") if ends else None
        body = {
            "id": "trial",
            "object": kind,
            "created": 1,
            "model": request.get("model"),
            "choices": [{"index": 0, key: value, "finish_reason": reason}],
        }
        return {**body, "usage": usage} if usage else body

    def streamed(self, request, turn):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        kind = "chat.completion.chunk"
        delta = {"role": "assistant", "content": turn.text, **self.calls(turn)}
        told = [
            self.chunk(request, kind, "delta", delta, turn, ends=False),
            self.chunk(request, kind, "delta", {}, turn),
            {**self.chunk(request, kind, "delta", {}, turn, USAGE), "choices": []},
        ]
        for part in told:
            self.wfile.write(b"data: " + json.dumps(part).encode() + b"\n\n")
        self.wfile.write(b"data: [DONE]\n\n")
        self.wfile.flush()
        self.close_connection = True


USAGE = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64


if __name__ == "__main__":
    server = Server(("127.0.0.1", 0), Model)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(server.server_address[1], flush=True)
    sys.stdin.read()
