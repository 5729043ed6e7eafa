"""Clients that go on over HTTP/2 while Warren restarts, until their input ends. Prints a line per request, then what failed."""

import json
import os
import sys
import threading

from e2b import Sandbox

sandbox = Sandbox.create(timeout=3600)
errors = []
goes_on = True


def work(client):
    steps = [
        lambda: sandbox.commands.run("echo on"),
        lambda: Sandbox.connect(sandbox.sandbox_id),
        lambda: sandbox.files.write(f"/tmp/note-{client}", "x"),
        lambda: Sandbox.list().next_items(),
    ]
    turn = client
    while goes_on:
        try:
            steps[turn % len(steps)]()
        except Exception as error:
            errors.append(f"{type(error).__name__}: {error}")
        turn += 1
        print("done", flush=True)


threads = [threading.Thread(target=work, args=(client,)) for client in range(6)]
for thread in threads:
    thread.start()
sys.stdin.read()
goes_on = False
for thread in threads:
    thread.join()
sandbox.kill()
print(json.dumps(errors), flush=True)
