"""Watches all processes as monitors do: reads each one's state, name, memory and command line every
second. With psutil where it is installed, else by reading /proc as psutil's process_iter does.

Usage: polling.py SECONDS. Prints a line when ready, waits for one, polls, and prints its CPU s and
how many processes it saw each time."""

import os
import sys
import time

ATTRIBUTES = ["pid", "ppid", "name", "status", "username", "cmdline", "memory_info", "cpu_times", "create_time"]


def by_psutil():
    return sum(1 for process in psutil.process_iter(ATTRIBUTES) if process.info["pid"])


def by_reading():
    seen = 0
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            for name in ("stat", "status", "cmdline", "statm"):
                with open(f"/proc/{entry}/{name}", "rb") as file:
                    content = file.read()
                    if name == "stat":
                        content[content.rindex(b")") + 2 :].split()
                    elif name == "status":
                        dict(line.split(b":", 1) for line in content.splitlines() if b":" in line)
        except (FileNotFoundError, ProcessLookupError):
            continue
        seen += 1
    return seen


try:
    import psutil

    poll, name = by_psutil, f"psutil {psutil.__version__}"
except ImportError:
    poll, name = by_reading, "reading /proc"

seen = poll()
print(f"ready {name}", flush=True)
sys.stdin.readline()
before, end = time.process_time(), time.monotonic() + float(sys.argv[1])
due = time.monotonic()
while due < end:
    seen = poll()
    due = max(due + 1.0, time.monotonic())
    time.sleep(max(0.0, min(due, end) - time.monotonic()))
print(time.process_time() - before, seen, flush=True)
