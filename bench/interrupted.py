"""Interrupt crawls with JOBDIR at random moments, and resume them: `python -m bench.interrupted`.

The crawls are those of `bench.faults` without most faults. robots.txt is fast, slow or fails at
first, and some sites have a Crawl-delay. Some crawls have 50 sites with two priorities, retries and
redirects, and are killed three times. Each crawl also runs with Scrapy alone. The exit code is 1 if
the judge finds something, or if a crawl loses more requests than with Scrapy alone.
"""

import argparse
import random
import sys

from bench.faults.answers import GOOD
from bench.faults.judge import KILLED, Judged
from bench.faults.plan import Ask, Page, Plan, Site, draw
from bench.faults.run import crawl, print_findings
from bench.report import table

#: Signals to the processes of a crawl, one per process.
SIGNS = (("SIGINT",), ("SIGTERM",), ("SIGKILL",), ("SIGINT", "SIGKILL"))
_AGAIN = "python -m bench.interrupted --runs 1 --seed"
#: Queues of the crawls of many sites.
QUEUES = ("LifoDisk", "FifoDisk")
# Settings that would bring other faults.
_OFF = ("CLOSESPIDER_PAGECOUNT", "CLOSESPIDER_TIMEOUT", "HTTPCACHE_ENABLED", "ROBOTS_CACHE")


def plan_of(seed: int, signs: tuple[str, ...], first: float = 0, last: float = 3) -> Plan:
    """Return the plan of a crawl whose processes get signals at random moments.

    :param first, last: seconds between which the signals are sent.
    """
    plan = draw(seed, "asyncio", (GOOD, "drip", "503", "404"))
    source = random.Random(seed)
    settings = {**plan.settings, **dict.fromkeys(_OFF, 0), "JOBDIR": True, "RETRY_ENABLED": False}
    return plan._replace(
        interruptions=tuple((source.uniform(first, last), sign) for sign in signs),
        settings=settings,
        parts=(),
        is_wrapped=False,
    )


def killed_plan(seed: int, queue: str, sites: int = 50, pages: int = 12) -> Plan:
    """Return the plan of a crawl of many sites that is killed three times."""
    kinds, scripts = ("page", "busy-once", "redirect"), ((GOOD,), ("drip",), ("503", GOOD))
    every_site = tuple(
        Site(
            host=f"127.0.1.{site + 1}",
            rules=("Disallow: /a/4",),
            pace=0.1 if site % 4 == 3 else 0,
            script=scripts[site % len(scripts)],
            down=0,
            pages=tuple(
                Page(f"/a/{n}", kinds[n % len(kinds)], (site, (n + 1) % pages), ())
                for n in range(pages)
            ),
        )
        for site in range(sites)
    )
    starts = tuple(Ask(site, n, priority=n % 2) for n in range(pages) for site in range(sites))
    plan = plan_of(seed, ("SIGKILL",) * 3, 1, 9)
    queues = {
        f"SCHEDULER_{name}DISK_QUEUE": f"scrapy.squeues.Pickle{queue}Queue"
        for name in ("", "START_")
    }
    settings = {**plan.settings, **queues, "CONCURRENT_REQUESTS": 16, "RETRY_ENABLED": True}
    return plan._replace(sites=every_site, starts=starts, settings=settings)


def lost(crawls: list[Judged]) -> int:
    """Return the number of requests without an outcome."""
    kinds = [kind for one in crawls for kind, _ in one.findings]
    return kinds.count("lost") + sum(one.counts[KILLED] for one in crawls)


def main() -> int:
    """Run, print a table, and return 1 if something was wrong."""
    parser = argparse.ArgumentParser(prog="python -m bench.interrupted", description=__doc__)
    parser.add_argument("--runs", type=int, default=20, help="number of crawls for each signal")
    parser.add_argument("--seed", type=int, default=9309)
    options = parser.parse_args()
    seeds = range(options.seed, options.seed + options.runs)
    plans = {", then ".join(signs): [plan_of(seed, signs) for seed in seeds] for signs in SIGNS}
    kills = seeds[: max(1, options.runs // 3)]
    for queue in QUEUES:
        plans[f"SIGKILL, 50 sites, {queue}"] = [killed_plan(seed, queue) for seed in kills]
    rows, is_wrong = [], False
    for name, each in plans.items():
        ours = [print_findings(crawl(plan), _AGAIN) for plan in each]
        alone = [crawl(plan, "stock") for plan in each]
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
