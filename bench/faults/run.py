"""Run the processes of a crawl one after the other, and judge it."""

import contextlib
import json
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.faults.crawl import OUTCOMES, PLAN
from bench.faults.judge import Judged, judge
from bench.faults.log import Event, Log, read_events
from bench.faults.plan import Plan
from bench.faults.servers import Servers

#: Seconds without progress after which a crawl counts as hung.
PATIENCE = 45.0
# Maximum number of findings of a crawl to print.
_SHOWN = 6
# Events that happen a limited number of times to each request.
_PROGRESS = ("opened", "yielded", "duplicate", "meddled", "disallowed", "fetched", "failed", "page")
#: The processes of all crawls.
running: set[subprocess.Popen[bytes]] = set()


def crawl(plan: Plan, middleware: str = "ours", *, verbose: bool = False) -> Judged:
    """Run a crawl, and judge it.

    :param middleware: a key of `MIDDLEWARES`.
    :param verbose: whether to print the plan, all events and the standard error.
    """
    with tempfile.TemporaryDirectory() as folder, Servers(plan) as servers:
        log = _Run(plan, middleware, Path(folder), servers).log()
    if verbose:
        print(*(f"{name}: {value}" for name, value in plan._asdict().items()), sep="\n")
        for event in log.events:
            print(f"{event.time - log.events[0].time:8.3f}  {event}")
        print(log.errors, file=sys.stderr)
    return judge(plan, log)


def print_findings(judged: Judged, command: str) -> Judged:
    """Print the findings of a crawl, and the command that runs it alone."""
    if judged.findings:
        print(
            f"seed {judged.seed}, {len(judged.findings)} findings (again: {command} {judged.seed})"
        )
        for kind, text in judged.findings[:_SHOWN]:
            print(f"  {kind}: {text}", flush=True)
    return judged


def end(process: subprocess.Popen[bytes]) -> None:
    """End a process and its children."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    running.discard(process)


class _Run:
    def __init__(self, plan: Plan, middleware: str, folder: Path, servers: Servers) -> None:
        self._plan = plan
        self._arguments = (folder, middleware)
        self._servers = servers
        self._outcomes, self._errors = folder / OUTCOMES, folder / "errors"
        self._outcomes.touch()
        (folder / PLAN).write_bytes(pickle.dumps(plan))

    def log(self) -> Log:
        """Crawl to the end, and return the log."""
        code: int | None = 0
        for number in range(len(self._plan.interruptions) + 2):
            command = [sys.executable, "-X", "faulthandler", "-m", "bench.faults.crawl"]
            command += map(str, (*self._arguments, number, *self._servers.ports))
            with self._errors.open("ab") as errors:
                process = subprocess.Popen(command, stderr=errors, start_new_session=True)
            running.add(process)
            try:
                was_interrupted = self._interrupt(process, number)
                code = self._wait(process)
            finally:
                end(process)
            if code is None or not (was_interrupted or self._was_closed_early(number)):
                break
        events = sorted([*self._events(), *self._servers.events], key=lambda event: event.time)
        return Log(events, self._errors.read_text(encoding="utf-8", errors="replace"), code)

    def _interrupt(self, process: subprocess.Popen[bytes], number: int) -> bool:
        """Send the planned signal. Return false if the process ends before."""
        if number >= len(self._plan.interruptions):
            return False
        after, sign = self._plan.interruptions[number]
        while not any(e.kind == "opened" and e.process == number for e in self._events()):
            if process.poll() is not None:
                return False
            time.sleep(0.02)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(after)
            return False
        process.send_signal(signal.Signals[sign])
        if sign == "SIGKILL":
            process.wait()
            with self._outcomes.open("a", encoding="utf-8") as file:
                file.write(f"\n{json.dumps(Event(time.monotonic(), 'killed', number))}\n")
        return True

    def _was_closed_early(self, number: int) -> bool:
        """Return whether a setting closed the spider of a crawl that can be resumed."""
        closed = [e.detail for e in self._events() if e.kind == "closed" and e.process == number]
        was_early = any(reason.startswith("closespider") for reason in closed)
        return was_early and bool(self._plan.settings["JOBDIR"])

    def _wait(self, process: subprocess.Popen[bytes]) -> int | None:
        """Wait until a process ends, and return its exit code.

        Without progress, end the process and return `None`.
        """
        progress, since = -1, time.monotonic()
        while time.monotonic() - since < PATIENCE:
            with contextlib.suppress(subprocess.TimeoutExpired):
                return process.wait(0.5)
            events = (e for e in (*self._events(), *self._servers.events) if e.kind in _PROGRESS)
            now = len({(e.kind, e.number, e.site, e.path) for e in events})
            if now != progress:
                progress, since = now, time.monotonic()
        process.send_signal(signal.SIGABRT)  # makes it print the stacks of its threads
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(10)
        return None

    def _events(self) -> list[Event]:
        return read_events(self._outcomes)
