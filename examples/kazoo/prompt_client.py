"""A kazoo client that reconnects promptly.

Usage: prompt_client.py HOSTS, such as 127.0.0.1:2181,127.0.0.1:2182,127.0.0.1:2183. Writes every
20 ms and prints, for each gap longer than 100 ms, how long no write succeeded.
"""

import signal
import sys
import threading
import time

from kazoo.client import KazooClient
from kazoo.exceptions import ConnectionClosedError, KazooException
from kazoo.retry import KazooRetry


def prompt_client(hosts: str, session_timeout_s: float = 10.0) -> KazooClient:
    """A client that asks another server at once, and then goes round its list every 25 to 75 ms."""
    # kazoo multiplies the delay of one round by backoff * (1 +- max_jitter) for the next. With
    # backoff 2, max_jitter 0.5 and delay equal to max_delay, each pause is drawn anew around 50 ms.
    # With backoff 1 the pauses would be a random walk: towards none at all, a busy loop.
    retry = KazooRetry(max_tries=-1, delay=0.05, max_delay=0.05, backoff=2, max_jitter=0.5)
    return KazooClient(hosts=hosts, timeout=session_timeout_s, connection_retry=retry)


def main() -> int:
    """Writes until interrupted."""
    # An exception in the middle of a call could leave kazoo in a state from which it cannot be stopped.
    stopping = threading.Event()
    signal.signal(signal.SIGINT, lambda *_: stopping.set())
    if len(sys.argv) != 2:
        print("usage: prompt_client.py HOST:PORT,HOST:PORT,...", file=sys.stderr)
        return 1
    client = prompt_client(sys.argv[1])
    client.start()
    client.ensure_path("/tailbound-kazoo")
    last_s = time.monotonic()
    try:
        while not stopping.is_set():
            try:
                client.set("/tailbound-kazoo", b"beat")
            except ConnectionClosedError:
                return 1
            except KazooException:
                # A set may be repeated: the node holds the same afterwards.
                stopping.wait(0.005)
                continue
            now_s = time.monotonic()
            if now_s - last_s > 0.1:
                print(f"no write for {1000 * (now_s - last_s):.0f} ms", flush=True)
            last_s = now_s
            stopping.wait(0.02)
        return 0
    finally:
        client.stop()
        client.close()


if __name__ == "__main__":
    sys.exit(main())
