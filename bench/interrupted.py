"""Interrupt crawls with JOBDIR at random moments, and resume them: `python -m bench.interrupted`.

The crawls are those of `bench.faults` without most faults. robots.txt is fast, slow or fails at
first, and some sites have a Crawl-delay. Some crawls have 50 sites and are killed three times. Each
crawl also runs with Scrapy alone. The exit code is 1 if the judge finds something, or if a crawl
loses more requests than with Scrapy alone.
"""

import argparse
import random
import sys
from collections.abc import Sequence

from bench.faults.answers import GOOD
from bench.faults.judge import KILLED, Judged
from bench.faults.plan import Plan, draw
from bench.faults.run import crawl, print_findings
from bench.report import table

#: Name of a row -> a signal to each process, latest second of a signal, and pages of each site.
ROWS: dict[str, tuple[Sequence[str], float, Sequence[int]]] = {
    "SIGINT": (("SIGINT",), 3, ()),
    "SIGTERM": (("SIGTERM",), 3, ()),
    "SIGKILL": (("SIGKILL",), 3, ()),
    "SIGINT, then SIGKILL": (("SIGINT", "SIGKILL"), 3, ()),
    "three times SIGKILL, 50 sites": (("SIGKILL",) * 3, 9, (12,) * 50),
}
# Settings that would bring other faults.
_OFF = ("CLOSESPIDER_PAGECOUNT", "CLOSESPIDER_TIMEOUT", "HTTPCACHE_ENABLED", "ROBOTS_CACHE")


def plan_of(seed: int, row: str) -> Plan:
    """Return the plan of a crawl whose processes get signals at random moments."""
    signs, latest, sizes = ROWS[row]
    plan = draw(seed, (GOOD, "drip", "503", "404"), sizes)
    source = random.Random(seed)
    return plan._replace(
        runtime="asyncio",
        settings={**plan.settings, **dict.fromkeys(_OFF, 0), "JOBDIR": True},
        parts=(),
        interruptions=tuple((source.uniform(0, latest), sign) for sign in signs),
        is_wrapped=False,
    )


def lost(crawls: list[Judged]) -> int:
    """Return the number of requests without an outcome."""
    kinds = [kind for one in crawls for kind, _ in one.findings]
    return kinds.count("lost") + sum(one.counts[KILLED] for one in crawls)


def main() -> int:
    """Run, print a table, and return 1 if something was wrong."""
    parser = argparse.ArgumentParser(prog="python -m bench.interrupted", description=__doc__)
    parser.add_argument("--runs", type=int, default=20, help="number of crawls for each row")
    parser.add_argument("--seed", type=int, default=9309)
    options = parser.parse_args()
    again = "python -m bench.interrupted --runs 1"
    rows, is_wrong = [], False
    for name in ROWS:
        plans = [plan_of(seed, name) for seed in range(options.seed, options.seed + options.runs)]
        ours = [print_findings(crawl(plan), again) for plan in plans]
        alone = [crawl(plan, "stock") for plan in plans]
        findings = sum(len(one.findings) for one in ours)
        slowest = [max(one.closing for one in results) for results in (ours, alone)]
        lost_of_ours, lost_alone = lost(ours), lost(alone)
        closing = f"{slowest[0]:.2f} ({slowest[1]:.2f})"
        rows.append([name, f"{findings}", f"{lost_of_ours} ({lost_alone})", closing])
        is_wrong |= findings > 0 or lost_of_ours > lost_alone
    title = "Interrupted and resumed (Scrapy alone)"
    print(table(title, ["", "findings", "requests lost", "slowest close, s"], rows))
    return int(is_wrong)


if __name__ == "__main__":
    sys.exit(main())
