"""Compare robots.txt parsers, and crawls of many hosts.

With --all, also run the other benchmarks, which takes about 90 minutes. Together they print every
number that the project promises. A missed goal is printed; other machines have other times.
"""

import argparse
import logging
import os
import platform
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from bench.files import URLS, generated, in_folder
from bench.hosts import show_hosts
from bench.parsers import LIVES, show_lives, show_verdicts
from bench.peers import CORE, GOOGLE, OURS, PROTEGO, RERP, URLLIB, installed

#: Module -> options that make it quick.
OTHERS = {
    "bench.growth": "--quick",
    "bench.queue": "--sites 1000",
    "bench.instructions": "--pages 20 --origins 10",
    "bench.crawls": "--share 0.03 --runs 1",
    "bench.interrupted": "--runs 1",
    "bench.faults": "--crawls 5",
    "tools.sizes": "",
}


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    add = parser.add_argument
    add("--corpus", type=Path, metavar="DIR", help="use the .txt files of a folder")
    add("--hosts", type=int, help="by default 10,000, or 100,000 with --all; 0 skips these crawls")
    add("--all", action="store_true", help="also run the other benchmarks")
    add("--quick", action="store_true", help="with --all: run them with small sizes")
    options = parser.parse_args()
    logging.disable()
    load = os.getloadavg()[0]
    print(f"CPython {platform.python_version()}, {os.cpu_count()} cores, load {load:.1f}")
    urls = max(LIVES)
    many = in_folder(options.corpus, urls) if options.corpus else generated(200, urls=urls)
    few = [replace(file, urls=file.urls[:URLS]) for file in many]
    peers = installed(OURS, CORE, PROTEGO, GOOGLE, URLLIB, RERP)
    show_verdicts(peers, few)
    show_lives([peer for peer in peers if peer.name != RERP], many)
    is_long = options.all and not options.quick
    hosts = (100_000 if is_long else 10_000) if options.hosts is None else options.hosts
    if hosts:
        show_hosts(hosts)
    if options.all:
        for module, quick in OTHERS.items():
            command = ["-m", module, *(quick.split() if options.quick else ())]
            print(f"\npython {' '.join(command)}", flush=True)
            subprocess.run([sys.executable, *command], check=False)
    else:
        print(f"\nOther benchmarks (make bench ARGS=--all runs them): {', '.join(OTHERS)}")


if __name__ == "__main__":
    main()
