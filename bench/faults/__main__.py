"""Run crawls with random faults, and judge them: `python -m bench.faults`.

Each crawl has 2 to 6 origins whose robots.txt hangs, breaks off, is compressed, redirects and so
on. Settings, queues, proxies and failing middlewares are random, too. A crawl runs in a process of
its own, which may get signals and be resumed. The exit code is 1 if the judge finds something.
"""

import argparse
import signal
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from bench.faults.crawl import MIDDLEWARES
from bench.faults.judge import WRONG, Judged
from bench.faults.plan import RUNTIMES, draw
from bench.faults.run import crawl, end, print_findings, running
from bench.report import table


def report(crawls: list[Judged]) -> int:
    """Print a table, and return the exit code."""
    counts = sum((one.counts for one in crawls), Counter({"crawls": 0}))
    wrong = Counter(kind for one in crawls for kind, _ in one.findings)
    rows = {"crawls": len(crawls), **counts}
    rows |= {f"{kind}: {meaning}": wrong[kind] for kind, meaning in WRONG.items()}
    print(table("Result", ["", ""], [[name, f"{value:,}"] for name, value in rows.items()]))
    return 1 if wrong else 0


def main() -> int:
    """Run, print a table, and return 1 if something was wrong."""
    parser = argparse.ArgumentParser(prog="python -m bench.faults", description=__doc__)
    add = parser.add_argument
    add("--crawls", type=int, default=100)
    add("--seed", type=int, default=9309, help="of the first crawl; the next has the next seed")
    add("--only", type=int, metavar="SEED", help="run only this crawl, and print its events")
    add("--runtime", choices=RUNTIMES, help="of all crawls; random by default")
    add("--middleware", choices=MIDDLEWARES, default="ours", help="what obeys robots.txt")
    add("--jobs", type=int, default=2, help="number of crawls at a time")
    options = parser.parse_args()
    is_alone = options.only is not None
    seeds = [options.only] if is_alone else range(options.seed, options.seed + options.crawls)
    again = f"python -m bench.faults --middleware {options.middleware}"
    again += f" --runtime {options.runtime} --only" if options.runtime else " --only"
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    pool = ThreadPoolExecutor(options.jobs)
    try:
        plans = (draw(seed, options.runtime) for seed in seeds)
        crawls = pool.map(partial(crawl, middleware=options.middleware, verbose=is_alone), plans)
        return report([print_findings(one, again) for one in crawls])
    finally:  # also after a signal
        pool.shutdown(wait=False, cancel_futures=True)
        for process in tuple(running):
            end(process)


if __name__ == "__main__":
    sys.exit(main())
