"""A service on a Unix socket that does what each line of a request asks for, one after the other, and answers `done`."""

import ctypes
import fcntl
import os
import selectors
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


ctypes.CDLL(None).prctl(1, 9)
listener = socket.socket(socket.AF_UNIX)
listener.bind(sys.argv[1])
listener.listen()
watched = selectors.DefaultSelector()
watched.register(listener, selectors.EVENT_READ)
while True:
    for key, _ in watched.select():
        if key.fileobj is listener:
            watched.register(listener.accept()[0], selectors.EVENT_READ)
            continue
        line = key.fileobj.recv(100)
        if not line:
            watched.unregister(key.fileobj)
            key.fileobj.close()
            continue
        key.fileobj.sendall((answer(line.decode()) + "\n").encode())
