"""`python -m bench.faults [--crawls N] [--seed S]`: crawls that meet drawn faults of servers, and
are judged.

Each crawl has a process of its own, which may be interrupted and resumed, and 2 to 6 origins whose
robots.txt hangs, breaks off, is compressed into little, redirects to somewhere and so on; with
settings and parts of a user's own, as middlewares that raise and schedulers, drawn as well. The
servers' own logs say whether a page was fetched that was disallowed, or before anything was known
of it. Ends with 1 where one was, where an allowed page was refused, a Crawl-delay not obeyed, a
request lost, doubled or out of order, or where a crawl did not end, or late.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.fault_answers import ANSWERS
from bench.fault_crawl import MIDDLEWARES, OUTCOMES
from bench.fault_judge import WRONG, Judge, Judged, Logs
from bench.fault_plan import COMPANY, RUNTIMES, draw
from bench.fault_servers import Servers
from bench.report import table

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench.fault_plan import Interruption, Plan

#: Seconds in which something has to happen, or the crawl hangs, and so many times that: no crawl
#: takes longer.
PATIENCE, _LONGEST = 90, 10
_SHOWN = 6


def crawl(
    seed: int,
    runtime: str | None = None,
    without: tuple[str, ...] = (),
    middleware: str = "ours",
    *,
    verbose: bool = False,
) -> Judged:
    """Run the crawl of a seed and judge it.

    :param runtime: one of `RUNTIMES`; `None`: it is drawn.
    :param without: names of answers and of parts of the company that are not drawn.
    :param middleware: a key of `MIDDLEWARES`.
    :param verbose: whether all that happened is printed.
    """
    plan = draw(seed, runtime, without)
    with tempfile.TemporaryDirectory() as name, Servers(plan) as servers:
        command = [sys.executable, "-m", "bench.fault_crawl", str(seed), plan.runtime]
        command += [",".join(without), middleware, name]
        code, errors, reported = _processes(plan, command, servers, Path(name, OUTCOMES))
    logs = Logs(servers.seen, servers.known, reported, errors, code)
    if verbose:
        _show(plan, logs)
    return Judge(plan, logs).judge()


def _processes(
    plan: Plan, command: list[str], servers: Servers, outcomes: Path
) -> tuple[int | None, str, list[dict[str, Any]]]:
    """Run the process of a crawl; if it was interrupted, those that go on with it.

    :returns: the exit code of the last one, what all of them logged, and what became of requests.
    """
    environment = {**os.environ, "PYTHONFAULTHANDLER": "1"}
    ports = [str(port) for port in servers.ports]
    errors = ""
    outcomes.touch()
    for number, interruption in enumerate((*plan.interruptions, None)):
        process = subprocess.Popen(
            [*command, str(number), *ports], stderr=subprocess.PIPE, text=True, env=environment
        )
        interrupted = interruption is not None and _interrupt(
            process, interruption, partial(_opened, outcomes, number)
        )
        code, logged = _ended(process, lambda: (len(servers.seen), _size(outcomes)))
        errors += logged
        if not interrupted:
            break
    return code, errors, _events(outcomes)


def _interrupt(
    process: subprocess.Popen[str], interruption: Interruption, opened: Callable[[], bool]
) -> bool:
    """Send a process a signal, some time after its spider was opened; false: it ended sooner."""
    while not opened():
        if process.poll() is not None:
            return False
        time.sleep(0.02)
    try:
        process.wait(interruption.after)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.Signals[interruption.sign])
        return True
    return False


def _opened(outcomes: Path, number: int) -> bool:
    return any(one["event"] == "opened" and one["process"] == number for one in _events(outcomes))


def _events(outcomes: Path) -> list[dict[str, Any]]:
    lines = outcomes.read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines if line.endswith("}")]


def _ended(process: subprocess.Popen[str], done: Callable[[], object]) -> tuple[int | None, str]:
    """Wait for the end of a crawl, and return its exit code and what it logged; no code where it
    had to be ended.

    :param done: returns how much was done so far. On a busy machine a crawl takes long, and goes
    on.
    """
    before: object = None
    for _ in range(_LONGEST):
        with contextlib.suppress(subprocess.TimeoutExpired):
            _, errors = process.communicate(timeout=PATIENCE)
            return process.returncode, errors
        now = done()
        if now == before:
            break
        before = now
    process.send_signal(signal.SIGABRT)  # it says where it stands, and ends
    return None, process.communicate()[1]


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _show(plan: Plan, logs: Logs) -> None:
    """Print what was drawn and all that happened, in its order."""
    print(plan.runtime, plan.scheduler, plan.interruptions, plan.settings, sep="\n")
    print(plan.parts, plan.spider_parts, plan.signal, plan.stop, sep="\n")
    for number, site in enumerate(plan.sites):
        print(
            f"site {number}: {site.script}, down for {site.down} s, pace {site.pace}, {site.rules}"
        )
    events = [(one.time, f"server: {one}") for one in logs.seen]
    events += [(one.time, f"server: {one}") for one in logs.known]
    events += [
        (one.pop("time"), f"crawl:  {one}") for one in [dict(line) for line in logs.reported]
    ]
    start = min((at for at, _ in events), default=0.0)
    for at, text in sorted(events):
        print(f"{at - start:8.3f}  {text}")
    print(logs.errors, file=sys.stderr)


def _rows(all_judged: list[Judged]) -> list[list[str]]:
    pages: Counter[str] = Counter()
    refused: Counter[str] = Counter()
    for one in all_judged:
        pages += one.pages
        refused += one.refused
    return [
        [name, f"{pages[name]:,}", f"{refused[name]:,}"]
        for name in ANSWERS
        if pages[name] or refused[name]
    ]


def print_findings(judged: Judged, options: str) -> Judged:
    """Print what was found in a crawl, and how to run it alone."""
    if judged.findings:
        print(f"seed {judged.seed} (again: python -m bench.faults --only {judged.seed}{options})")
        for finding in judged.findings[:_SHOWN]:
            print(f"  {finding.kind}: {finding.text}")
        if len(judged.findings) > _SHOWN:
            print(f"  and {len(judged.findings) - _SHOWN} more")
        print(flush=True)
    return judged


def report(all_judged: list[Judged]) -> int:
    """Print what was judged and found, and return the exit code."""
    title = "Page requests judged, by the first answer for the robots.txt of their origin"
    print(table(title, ["robots.txt", "fetched", "refused"], _rows(all_judged)))
    found = Counter(finding.kind for one in all_judged for finding in one.findings)
    pages = sum(one.pages.total() for one in all_judged)
    rows = [["crawls", str(len(all_judged))], ["page requests judged", f"{pages:,}"]]
    rows += [["requests refused", f"{sum(one.refused.total() for one in all_judged):,}"]]
    rows += [["page requests that were exempt", f"{sum(one.exempt for one in all_judged):,}"]]
    rows += [
        ["left over by crawls that were closed early", f"{sum(one.left for one in all_judged):,}"]
    ]
    rows += [["crawls that were interrupted", str(sum(one.interrupted for one in all_judged))]]
    rows += [["crawls whose order was judged", str(sum(one.ordered for one in all_judged))]]
    rows += [[f"{kind}: {meaning}", f"{found[kind]:,}"] for kind, meaning in WRONG.items()]
    print(table("Found", ["", ""], rows))
    return 1 if found else 0


def main() -> int:
    """Run, print tables, and return 1 when something was wrong."""
    parser = argparse.ArgumentParser(prog="python -m bench.faults", description=__doc__)
    parser.add_argument("--crawls", type=int, default=100)
    parser.add_argument(
        "--seed",
        type=int,
        default=9309,
        help="of the first crawl; the next ones have the next seeds",
    )
    parser.add_argument(
        "--only",
        type=int,
        metavar="SEED",
        help="run the crawl of this seed alone, and print all of it",
    )
    parser.add_argument(
        "--runtime", choices=RUNTIMES, help="for all crawls; else it is drawn, as all else"
    )
    parser.add_argument(
        "--without",
        default="",
        metavar="NAME,...",
        help=f"draw none of these: answers by the names in the table, or {', '.join(COMPANY)}",
    )
    parser.add_argument(
        "--middleware", choices=MIDDLEWARES, default="ours", help="what is to obey robots.txt"
    )
    parser.add_argument("--jobs", type=int, default=2, help="crawls at a time")
    options = parser.parse_args()
    without = tuple(filter(None, options.without.split(",")))
    if unknown := set(without) - {*ANSWERS, *COMPANY}:
        parser.error(f"--without: unknown: {', '.join(sorted(unknown))}")
    seeds = (
        [options.only]
        if options.only is not None
        else range(options.seed, options.seed + options.crawls)
    )
    alone = options.only is not None
    again = "".join(
        f" --{name} {value}"
        for name in ("runtime", "without", "middleware")
        if (value := getattr(options, name)) != parser.get_default(name)
    )
    with ThreadPoolExecutor(options.jobs) as pool:
        crawls = pool.map(
            lambda seed: crawl(seed, options.runtime, without, options.middleware, verbose=alone),
            seeds,
        )
        return report([print_findings(one, again) for one in crawls])


if __name__ == "__main__":
    sys.exit(main())
