"""Compare the verdicts and the time of parsers, which take turns on the same files."""

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from time import perf_counter_ns

from bench.files import AGENT, File
from bench.peers import CORE, GOOGLE, OURS, PROTEGO, Peer, allows
from bench.report import table

#: Number of verdicts -> largest share of Protego's time.
LIVES = {1: 0.41, 5: 0.41, 21: 0.35, 100: 0.28, 1000: 0.26}
# With more verdicts than this, only the fast parsers are measured.
_MAX_FOR_SLOW = 100
_EXAMPLES = 5
# Number of runs, of which the fastest counts.
_REPEAT = 5


def show_verdicts(peers: Sequence[Peer], files: Sequence[File]) -> None:
    """Print how many URLs each parser allows, and how many verdicts differ from ours."""
    verdicts: dict[str, dict[str, bool]] = {peer.name: {} for peer in peers}
    for peer in peers:
        for file in files:
            ask = peer.load(file.body)
            verdicts[peer.name] |= {url: allows(ask(url, AGENT)) for url in file.urls}
    ours = verdicts[CORE]
    rows, examples = [], []
    for name, theirs in verdicts.items():
        differing = [url for url, allowed in theirs.items() if allowed is not ours[url]]
        rows.append([name, f"{sum(theirs.values()):,}", f"{len(differing):,}"])
        if name in (OURS, GOOGLE):
            verdict = {True: "allows", False: "disallows"}
            examples += [f"  {name} {verdict[theirs[url]]} {url}" for url in differing[:_EXAMPLES]]
    title = f"Verdicts on {len(ours):,} URLs of {len(files):,} files"
    print(table(title, ["", "allowed", "different from ours"], rows))
    print("\n".join(examples))


@contextmanager
def without_gc() -> Iterator[None]:
    """Run the block without garbage collection."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def life(peer: Peer, body: bytes, urls: Sequence[str], agents: Sequence[str] = (AGENT,)) -> float:
    """Return the microseconds that reading a file and deciding about URLs takes."""
    start = perf_counter_ns()
    ask = peer.load(body)
    for number, url in enumerate(urls):
        ask(url, agents[number % len(agents)])
    return (perf_counter_ns() - start) / 1000


def lives(peers: Sequence[Peer], files: Sequence[File], count: int) -> dict[str, float]:
    """Return the mean microseconds of reading a file and deciding this many times."""
    sums = dict.fromkeys((peer.name for peer in peers), 0.0)
    with without_gc():
        for file in files:
            urls = file.urls[:count]
            runs = [{p.name: life(p, file.body, urls) for p in peers} for _ in range(_REPEAT)]
            for name in sums:
                sums[name] += min(run[name] for run in runs) / len(files)
    return sums


def show_lives(peers: Sequence[Peer], files: Sequence[File]) -> None:
    """Print how long reading a file and n verdicts takes."""
    columns = {}
    for count in LIVES:
        fast = [peer for peer in peers if peer.name in (OURS, CORE, PROTEGO)]
        columns[count] = lives(peers if count <= _MAX_FOR_SLOW else fast, files, count)
    rows = []
    for peer in peers:
        row = [peer.name]
        for times in columns.values():
            own = times.get(peer.name)
            row += ["-", ""] if own is None else [f"{own:,.1f}", f"{own / times[PROTEGO]:.2f}"]
        rows.append(row)
    rows.append(["goal: ours (core)", *(c for goal in LIVES.values() for c in ("", f"{goal:.2f}"))])
    head = ["", *(cell for count in LIVES for cell in (f"n = {count:,}", "share"))]
    title = "Reading a file and n verdicts on different URLs: us per file, share of Protego's time"
    print(table(title, head, rows))
