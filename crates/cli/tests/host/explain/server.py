"""A service on a Unix socket that does what each line of a request asks for, one after the other, and answers `done`.

With `--fork` each connection has a process of its own. With `--stay` the service outlives its parent, as in a container.
"""

import ctypes
import fcntl
import os
import selectors
import signal
import socket
import sys
import time


def work(milliseconds):
    """Uses so much CPU time."""
    end = time.thread_time() + milliseconds / 1000
    while time.thread_time() < end:
        pass


def answer(line):
    verb, argument = line.split()
    if verb == "work":
        work(int(argument))
    elif verb == "sleep":
        time.sleep(int(argument) / 1000)
    elif verb == "lock":
        with open(argument, "w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            work(1)
    elif verb == "pid":
        return str(os.getpid())
    return "done"


def die_with_parent():
    ctypes.CDLL(None).prctl(1, 9)


def serve_alone(listener, connection):
    """Makes a process that answers this connection."""
    if os.fork() == 0:
        die_with_parent()
        listener.close()
        while line := connection.recv(100):
            connection.sendall((answer(line.decode()) + "\n").encode())
        os._exit(0)
    connection.close()


if "--stay" not in sys.argv:
    die_with_parent()
listener = socket.socket(socket.AF_UNIX)
listener.bind(sys.argv[1])
listener.listen()
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
watched = selectors.DefaultSelector()
watched.register(listener, selectors.EVENT_READ)
while True:
    for key, _ in watched.select():
        if key.fileobj is listener:
            connection = listener.accept()[0]
            if "--fork" in sys.argv:
                serve_alone(listener, connection)
            else:
                watched.register(connection, selectors.EVENT_READ)
            continue
        line = key.fileobj.recv(100)
        if not line:
            watched.unregister(key.fileobj)
            key.fileobj.close()
            continue
        key.fileobj.sendall((answer(line.decode()) + "\n").encode())
