"""Run crawls with random faults, and judge them: `python -m bench.faults`.

Each crawl has 2 to 6 origins whose robots.txt hangs, breaks off, is compressed, redirects and so
on. Settings, schedulers, proxies and failing middlewares are random, too. A crawl runs in a process
of its own, which may get signals and be resumed. The exit code is 1 if `bench.fault_judge` finds
something wrong.
"""

import argparse
import contextlib
import json
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from bench.fault_answers import ANSWERS
from bench.fault_crawl import MIDDLEWARES, OUTCOMES, PLAN
from bench.fault_judge import WRONG, Judge, Judged
from bench.fault_log import Event, Log, read_events
from bench.fault_plan import COMPANY, RUNTIMES, Plan, draw
from bench.fault_servers import Servers
from bench.report import table

#: Seconds without progress after which a crawl counts as hung.
PATIENCE = 45.0
# The file with the standard error of the processes.
_ERRORS = "errors"
# Seconds for a process to print the stacks of its threads before it is killed.
_LAST_WORDS = 10.0
# Seconds between two checks for progress.
_LOOK = 0.5
_SHOWN = 6
# Events that happen a limited number of times to each request.
_PROGRESS = ("opened", "yielded", "duplicate", "meddled", "disallowed", "fetched", "failed")
_RUNNING: set[subprocess.Popen[bytes]] = set()


@dataclass(frozen=True, slots=True)
class Run:
    """The processes of one crawl, one after the other."""

    plan: Plan
    middleware: str
    folder: Path
    servers: Servers

    def log(self) -> Log:
        """Crawl to the end, and return the log."""
        (self.folder / PLAN).write_bytes(pickle.dumps(self.plan))
        (self.folder / OUTCOMES).touch()
        code: int | None = 0
        for number in range(len(self.plan.interruptions) + 2):
            code, was_interrupted = self._process(number)
            if code is None or not (was_interrupted or self._was_closed_early(number)):
                break
        errors = (self.folder / _ERRORS).read_text(encoding="utf-8", errors="replace")
        servers = self.servers
        return Log(servers.seen, servers.known, self._events(), servers.lags, errors, code)

    def _process(self, number: int) -> tuple[int | None, bool]:
        """Run a process, and return its exit code and whether it got the planned signal."""
        command = [sys.executable, "-X", "faulthandler", "-m", "bench.fault_crawl"]
        command += map(str, (self.folder, self.middleware, number, *self.servers.ports))
        with (self.folder / _ERRORS).open("ab") as errors:
            process = subprocess.Popen(command, stderr=errors, start_new_session=True)
        _RUNNING.add(process)
        try:
            was_interrupted = self._interrupt(process, number)
            return self._wait(process), was_interrupted
        finally:
            end(process)

    def _interrupt(self, process: subprocess.Popen[bytes], number: int) -> bool:
        """Send the planned signal. Return false if the process ends before."""
        if number >= len(self.plan.interruptions):
            return False
        interruption = self.plan.interruptions[number]
        while not any(e.kind == "opened" and e.process == number for e in self._events()):
            if process.poll() is not None:
                return False
            time.sleep(0.02)
        try:
            process.wait(interruption.after)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.Signals[interruption.sign])
        else:
            return False
        if interruption.sign == "SIGKILL":
            process.wait()
            killed = Event(time.monotonic(), "killed", number, seconds=self._last_saved())
            with (self.folder / OUTCOMES).open("a", encoding="utf-8") as file:
                file.write(f"\n{json.dumps(asdict(killed))}\n")
        return True

    def _last_saved(self) -> float:
        """Return the monotonic time when the state of the queue was saved, or 0 if it was not."""
        state = self.folder / "job" / "requests.queue" / "active.json"
        if not state.exists():
            return 0.0
        return state.stat().st_mtime - time.time() + time.monotonic()

    def _was_closed_early(self, number: int) -> bool:
        """Return whether a setting closed the spider of a crawl that can be resumed."""
        closed = [e for e in self._events() if e.kind == "closed" and e.process == number]
        was_early = any(event.reason.startswith("closespider") for event in closed)
        return was_early and bool(self.plan.settings["JOBDIR"])

    def _wait(self, process: subprocess.Popen[bytes]) -> int | None:
        """Wait until a process ends, and return its exit code.

        Without progress, end the process and return `None`.
        """
        progress, since = self._progress(), time.monotonic()
        while time.monotonic() - since < PATIENCE:
            with contextlib.suppress(subprocess.TimeoutExpired):
                return process.wait(_LOOK)
            now = self._progress()
            if now != progress:
                progress, since = now, time.monotonic()
        process.send_signal(signal.SIGABRT)  # makes it print the stacks of its threads
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_LAST_WORDS)
        return None

    def _progress(self) -> tuple[int, int]:
        """Return a value that changes a limited number of times in a crawl."""
        events = {(e.kind, e.number, e.path) for e in self._events() if e.kind in _PROGRESS}
        pages = {(one.number, one.site, one.page) for one in tuple(self.servers.seen)}
        return len(events), len(pages)

    def _events(self) -> list[Event]:
        return read_events(self.folder / OUTCOMES)


def end(process: subprocess.Popen[bytes]) -> None:
    """End a process and its children."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    _RUNNING.discard(process)


def crawl(plan: Plan, middleware: str = "ours", *, verbose: bool = False) -> Judged:
    """Run a crawl, and judge it.

    :param middleware: a key of `MIDDLEWARES`.
    :param verbose: whether to print all events.
    """
    with tempfile.TemporaryDirectory() as folder, Servers(plan) as servers:
        log = Run(plan, middleware, Path(folder), servers).log()
    if verbose:
        _show(plan, log)
    return Judge(plan, log).judge()


def _show(plan: Plan, log: Log) -> None:
    """Print the plan, and all events in order."""
    for name, value in asdict(plan).items():
        print(f"{name}: {value}")
    lines = [(event.time, f"crawl:  {event}") for event in log.events]
    lines += [(seen.time, f"server: {seen}") for seen in log.seen]
    lines += [(known.time, f"server: {known}") for known in log.known]
    lines += [(lag.time, f"{lag}") for lag in log.lags]
    start = min((time for time, _ in lines), default=0.0)
    for at, text in sorted(lines):
        print(f"{at - start:8.3f}  {text}")
    print(log.errors, file=sys.stderr)


def print_findings(judged: Judged, command: str) -> Judged:
    """Print the findings of a crawl, and the command that runs it alone."""
    if judged.findings:
        print(f"seed {judged.seed} (again: {command} {judged.seed})")
        for finding in judged.findings[:_SHOWN]:
            print(f"  {finding.kind}: {finding.text}")
        if len(judged.findings) > _SHOWN:
            print(f"  and {len(judged.findings) - _SHOWN} more")
        print(flush=True)
    return judged


def report(crawls: list[Judged]) -> int:
    """Print the tables, and return the exit code."""
    pages: Counter[str] = sum((one.pages for one in crawls), Counter())
    dropped: Counter[str] = sum((one.dropped for one in crawls), Counter())
    answers = [name for name in ANSWERS if pages[name] or dropped[name]]
    rows = [[name, f"{pages[name]:,}", f"{dropped[name]:,}"] for name in answers]
    title = "Judged requests, by the first answer to a request for robots.txt"
    print(table(title, ["robots.txt", "fetched", "dropped"], rows))
    wrong = Counter(finding.kind for one in crawls for finding in one.findings)
    numbers = {
        "crawls": len(crawls),
        "requests for pages": pages.total(),
        "dropped requests": dropped.total(),
        "requests for exempt pages": sum(one.exempt for one in crawls),
        "not handled by crawls that were closed early": sum(one.left for one in crawls),
        "lost by SIGKILL (in flight, or not saved yet)": sum(one.killed for one in crawls),
        "crawls that were resumed": sum(one.interrupted for one in crawls),
        "crawls whose order was judged": sum(one.ordered for one in crawls),
        **{f"{kind}: {meaning}": wrong[kind] for kind, meaning in WRONG.items()},
    }
    print(table("Result", ["", ""], [[name, f"{value:,}"] for name, value in numbers.items()]))
    return 1 if wrong else 0


def main() -> int:
    """Run, print tables, and return 1 if something was wrong."""
    parser = argparse.ArgumentParser(prog="python -m bench.faults", description=__doc__)
    add = parser.add_argument
    add("--crawls", type=int, default=100)
    add("--seed", type=int, default=9309, help="of the first crawl; the next has the next seed")
    add("--only", type=int, metavar="SEED", help="run only this crawl, and print its events")
    add("--runtime", choices=RUNTIMES, help="of all crawls; random by default")
    without_help = f"leave these out: names of answers in the table, or {', '.join(COMPANY)}"
    add("--without", default="", metavar="NAME,...", help=without_help)
    add("--middleware", choices=MIDDLEWARES, default="ours", help="what obeys robots.txt")
    add("--jobs", type=int, default=2, help="number of crawls at a time")
    options = parser.parse_args()
    without = tuple(filter(None, options.without.split(",")))
    if unknown := set(without) - {*ANSWERS, *COMPANY}:
        parser.error(f"--without: unknown: {', '.join(sorted(unknown))}")
    is_alone = options.only is not None
    first = options.only if is_alone else options.seed
    seeds = range(first, first + (1 if is_alone else options.crawls))
    again = "python -m bench.faults" + "".join(
        f" --{name} {value}"
        for name in ("runtime", "without", "middleware")
        if (value := getattr(options, name)) != parser.get_default(name)
    )
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    pool = ThreadPoolExecutor(options.jobs)
    try:
        plans = (draw(seed, options.runtime, without) for seed in seeds)
        crawls = pool.map(partial(crawl, middleware=options.middleware, verbose=is_alone), plans)
        return report([print_findings(one, f"{again} --only") for one in crawls])
    finally:  # also after a signal
        pool.shutdown(wait=False, cancel_futures=True)
        for process in tuple(_RUNNING):
            end(process)


if __name__ == "__main__":
    sys.exit(main())
