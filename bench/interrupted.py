"""Interrupt crawls with JOBDIR at random moments, and resume them: `python -m bench.interrupted`.

They are the crawls of `bench.faults` without most faults: robots.txt is fast, slow or fails at
first, and some sites have a Crawl-delay. The same crawls run with Scrapy alone. The exit code is 1
if the judge finds something, or if SIGKILL takes more requests than with Scrapy alone.
"""

from __future__ import annotations

import argparse
import random
import sys
from dataclasses import replace

from bench.fault_answers import ANSWERS, GOOD
from bench.fault_judge import Judged
from bench.fault_plan import COMPANY, RUNTIMES, Interruption, Plan, draw
from bench.faults import crawl, print_findings
from bench.report import table

_KEPT = {GOOD, "drip", "503", "404", "queues"}
#: Signals of the processes of a crawl, one after the other.
KINDS = (("SIGINT",), ("SIGTERM",), ("SIGKILL",), ("SIGINT", "SIGKILL"))


def plan_of(seed: int, signs: tuple[str, ...], runtime: str) -> Plan:
    """Return a crawl whose processes get signals at random moments."""
    plan = draw(seed, runtime, sorted({*ANSWERS, *COMPANY} - _KEPT))
    source = random.Random(seed)
    interruptions = tuple(Interruption(source.uniform(0, 3), sign) for sign in signs)
    settings = {**plan.settings, "JOBDIR": True, "RETRY_ENABLED": False}
    return replace(plan, interruptions=interruptions, settings=settings)


def lost(crawls: list[Judged]) -> int:
    """Return how many requests had no outcome."""
    kinds = [finding.kind for one in crawls for finding in one.findings]
    return kinds.count("lost") + sum(one.killed for one in crawls)


def main() -> int:
    """Run, print a table, and return 1 if something was wrong."""
    parser = argparse.ArgumentParser(prog="python -m bench.interrupted", description=__doc__)
    parser.add_argument("--runs", type=int, default=20, help="crawls for each kind of stop")
    parser.add_argument("--seed", type=int, default=9309)
    parser.add_argument("--runtime", choices=RUNTIMES, default="asyncio")
    options = parser.parse_args()
    rows, is_wrong = [], False
    for signs in KINDS:
        plans = [
            plan_of(options.seed + number, signs, options.runtime) for number in range(options.runs)
        ]
        ours = [print_findings(crawl(plan), "") for plan in plans]
        alone = [crawl(plan, "stock") for plan in plans]
        findings = sum(len(one.findings) for one in ours)
        closing = [max(one.closing for one in each) for each in (ours, alone)]
        rows.append(
            [
                ", then ".join(signs),
                f"{findings}",
                f"{lost(ours)} ({lost(alone)})",
                f"{closing[0]:.2f} ({closing[1]:.2f})",
            ]
        )
        is_wrong |= findings > 0 or lost(ours) > lost(alone)
    title = f"{options.runs} crawls for each kind of stop (Scrapy alone)"
    print(table(title, ["", "findings", "requests lost", "slowest close, s"], rows))
    return int(is_wrong)


if __name__ == "__main__":
    sys.exit(main())
