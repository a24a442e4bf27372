"""Compare the parsers for Scrapy, and their memory: `python -m bench`.

All parsers read the same files and decide about the same URLs in one run, in turn. A missed goal is
printed and changes no exit code, because machines differ.
"""

from __future__ import annotations

import argparse
import logging
import os
import platform
from pathlib import Path
from typing import TYPE_CHECKING

from bench.files import AGENT, URLS, generated, in_folder
from bench.hosts import kib_per_host
from bench.peers import CORE, GOOGLE, OURS, PROTEGO, RERP, URLLIB, allows, installed
from bench.report import table
from bench.timing import lives, memory

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.files import File
    from bench.peers import Peer

#: Verdicts in the life of a file -> the largest share of Protego's time.
LIVES = {1: 0.28, 5: 0.28, 21: 0.28, 100: 0.23, 1000: 0.16}
#: Parsers that are so slow with many verdicts that they are measured with few.
_FEW = 100
#: KiB of memory for each host.
HOSTS = {"ours": 1.5, "ours, each further host": 2.5}
_SHOWN = 5


def show_verdicts(peers: Sequence[Peer], files: Sequence[File]) -> None:
    """Count the verdicts of all parsers, and those that differ from ours."""
    verdicts: dict[str, dict[str, bool]] = {}
    for peer in peers:
        verdicts[peer.name] = {}
        for file in files:
            ask = peer.load(file.body)
            verdicts[peer.name] |= {url: allows(ask(url, AGENT)) for url in file.urls}
    ours = verdicts[CORE]
    rows, examples = [], []
    for name, given in verdicts.items():
        differing = [url for url, allowed in given.items() if allowed is not ours[url]]
        rows.append([name, f"{sum(given.values()):,}", f"{len(differing):,}"])
        if name in (OURS, GOOGLE):
            examples += [f"  {name} {_verdict(given[url])} {url}" for url in differing[:_SHOWN]]
    title = f"Verdicts on {len(ours):,} URLs of {len(files):,} files"
    print(table(title, ["", "allowed", "other than ours"], rows))
    print("\n".join(examples))


def _verdict(is_allowed: bool) -> str:
    return "allows" if is_allowed else "disallows"


def show_lives(peers: Sequence[Peer], files: Sequence[File], repeat: int) -> None:
    """Print the time of reading a file and n verdicts, and where fast-robotstxt is faster."""
    columns = {}
    for count in LIVES:
        measured = [peer for peer in peers if count <= _FEW or peer.name in (OURS, CORE, PROTEGO)]
        columns[count] = lives(measured, files, count, repeat)
    rows = []
    for peer in peers:
        row = [peer.name]
        for micros in columns.values():
            of = micros.get(peer.name)
            row += ["-", ""] if of is None else [f"{of:,.1f}", f"{of / micros[PROTEGO]:.2f}"]
        rows.append(row)
    goals = [cell for goal in LIVES.values() for cell in ("", f"{goal:.2f}")]
    head = ["", *(cell for count in LIVES for cell in (f"n = {count:,}", "share"))]
    title = "Reading a file and n verdicts on different URLs, us a file, and share of Protego's"
    print(table(title, head, [*rows, ["goal: ours (core)", *goals]]))
    times = [
        (n, micros[GOOGLE] / micros[CORE]) for n, micros in columns.items() if GOOGLE in micros
    ]
    faster = [f"n = {n:,} ({ratio:.2f} of our time)" for n, ratio in times if ratio < 1]
    slower = [f"n = {n:,} ({ratio:.2f} times)" for n, ratio in times if ratio >= 1]
    print(f"{GOOGLE} is faster at {', '.join(faster) or 'none'}; ours at {', '.join(slower)}")


def show_memory(peers: Sequence[Peer], files: Sequence[File]) -> None:
    """Print the memory of a file in each parser written in Python."""
    rows = []
    for peer in peers:
        memory(peer, files[:3])  # what a parser keeps for the process is not a file's
        read, asked = memory(peer, files)
        rows.append([peer.name, f"{read:,.0f}", f"{asked:,.0f}"])
    print(table("Memory of a file, bytes", ["", "read", f"{URLS} verdicts"], rows))


def show_hosts(count: int) -> None:
    """Print the memory of robots.txt in crawls of many hosts."""
    rows = []
    for name, kib in kib_per_host(count).items():
        goal = HOSTS.get(name)
        rows.append([name, f"{kib:.2f}", "" if goal is None else f"{goal}"])
    title = f"Memory of robots.txt in a crawl of {count:,} hosts"
    print(table(title, ["", "KiB a host", "goal"], rows))


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    add = parser.add_argument
    add("--files", type=int, default=200, help="how many files are generated")
    add("--corpus", type=Path, metavar="DIR", help="measure the .txt files of a folder instead")
    add("--repeat", type=int, default=4, help="repetitions, of which the best counts")
    add("--hosts", type=int, default=10_000, help="hosts of the crawls; 0 leaves them out")
    options = parser.parse_args()
    logging.disable()
    load = os.getloadavg()[0]
    print(f"CPython {platform.python_version()}, {os.cpu_count()} cores, load {load:.1f}")
    urls = max(LIVES)
    many = generated(options.files, urls=urls)
    if options.corpus is not None:
        many = in_folder(options.corpus, urls)
    few = [type(file)(file.host, file.body, file.urls[:URLS]) for file in many]
    peers = installed(OURS, CORE, PROTEGO, GOOGLE, URLLIB, RERP)
    show_verdicts(peers, few)
    show_lives([peer for peer in peers if peer.name != RERP], many, options.repeat)
    show_memory([peer for peer in peers if peer.name != GOOGLE], few)
    if options.hosts:
        show_hosts(options.hosts)


if __name__ == "__main__":
    main()
