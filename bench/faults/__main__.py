"""Run crawls with random faults, and judge them: `python -m bench.faults`.

Each crawl has 2 to 6 origins whose robots.txt hangs, breaks off, is compressed, redirects and so
on. Settings, queues, proxies and failing middlewares are random, too. A crawl runs in a process of
its own, which may get signals and be resumed. The exit code is 1 if the judge finds something.
"""

import argparse
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

from bench.faults.crawl import MIDDLEWARES
from bench.faults.judge import WRONG, Judged
from bench.faults.plan import draw
from bench.faults.run import crawl, print_findings
from bench.report import table


def main() -> int:
    """Run, print a table, and return 1 if something was wrong."""
    parser = argparse.ArgumentParser(prog="python -m bench.faults", description=__doc__)
    add = parser.add_argument
    add("--crawls", type=int, default=100, help="number of crawls; 1 also prints its events")
    add("--seed", type=int, default=9309, help="of the first crawl; the next has the next seed")
    add("--middleware", choices=MIDDLEWARES, default="ours", help="what obeys robots.txt")
    add("--jobs", type=int, default=2, help="number of crawls at a time")
    options = parser.parse_args()
    again = f"python -m bench.faults --middleware {options.middleware} --crawls 1"

    def run(seed: int) -> Judged:
        judged = crawl(draw(seed), options.middleware, verbose=options.crawls == 1)
        return print_findings(judged, again)

    with ThreadPoolExecutor(options.jobs) as pool:
        crawls = list(pool.map(run, range(options.seed, options.seed + options.crawls)))
    rows = sum((one.counts for one in crawls), Counter({"crawls": len(crawls)}))
    wrong = Counter(kind for one in crawls for kind, _ in one.findings)
    for kind, meaning in WRONG.items():
        rows[f"{kind}: {meaning}"] = wrong[kind]
    print(table("Result", ["", ""], [[name, f"{value:,}"] for name, value in rows.items()]))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
