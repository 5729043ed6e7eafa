"""Plays the part of systemd for a port: keeps it open, and hands it to each process that `start` becomes.

socket_keeper.py keep HOST PORT PATH    opens the port and gives it to whoever connects to the Unix socket PATH
socket_keeper.py start PATH PROGRAM …   becomes PROGRAM, with the port as descriptor 3
"""

import os
import socket
import sys

if sys.argv[1] == "keep":
    _, _, host, port, path = sys.argv
    kept = socket.create_server((host, int(port)), backlog=4096)
    giver = socket.socket(socket.AF_UNIX)
    giver.bind(path)
    giver.listen()
    print("kept", flush=True)
    while True:
        taker, _ = giver.accept()
        socket.send_fds(taker, [b"x"], [kept.fileno()])
        taker.close()

_, _, path, program, *args = sys.argv
with socket.socket(socket.AF_UNIX) as taker:
    taker.connect(path)
    _, [descriptor], _, _ = socket.recv_fds(taker, 1, 1)
if descriptor != 3:
    os.dup2(descriptor, 3)
os.set_inheritable(3, True)
os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS="1")
os.execv(program, [program, *args])
