"""The Python agent under test: says on its output what it is called for. PATH DOMAIN"""

import sys
import threading

from agent import Agent


def say(line):
    print(line, flush=True)


class Subject:
    def __init__(self, name, *, stops=True, starts_fail=0):
        self.name, self.stops, self.starts_fail = name, stops, starts_fail

    def stop(self):
        say(f"stop {self.name}")
        if not self.stops:
            raise RuntimeError("does not stop")

    def start(self):
        say(f"start {self.name}")
        if self.starts_fail > 0:
            self.starts_fail -= 1
            raise RuntimeError("does not start")


def main():
    path, domain = sys.argv[1:]
    agent = Agent(
        domain,
        path,
        on_event=lambda kind, told: say(f"{kind} {told}"),
        pause_least=0.001,
        pause_most=0.005,
    )
    subjects = [
        (Subject("move"), True),
        (Subject("hold"), True),
        (Subject("scan"), False),
        (Subject("broken", starts_fail=sys.maxsize), False),
        (Subject("stuck", stops=False), True),
        (Subject("weary", starts_fail=1), True),
    ]
    for subject, started in subjects:
        agent.task(subject.name, stop=subject.stop, start=subject.start, started=started)

    def obey():
        for line in sys.stdin:
            agent.request(line.strip())
        agent.end()

    threading.Thread(target=obey, daemon=True).start()
    agent.run()


main()
