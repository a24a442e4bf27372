"""`python -m bench [--corpus DIR] [--quick]`: all tables in one run, and whether the numbers of the
design are reached.

Ends with 1 where a verdict is wrong; a number that is missed is printed and ends nothing, since
machines differ.
"""

from __future__ import annotations

import argparse
import logging
import os
import platform
import random
import sys
from dataclasses import dataclass
from importlib import metadata
from itertools import pairwise
from pathlib import Path
from statistics import fmean, median
from typing import TYPE_CHECKING

from bench import (
    bounds,
    generate,
    hostile,
    lives,
    memory,
    old_crawls as crawls,
    samples,
    targets,
    timing,
    verdicts,
)
from bench.crawl import OFF, OURS as OUR_CRAWL
from bench.peers import CORE, NAMES, OURS, PROTEGO, present
from bench.report import ABSENT, table, with_ratios

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.peers import Peer
    from bench.samples import Sample
    from bench.targets import Target

_SEED = 9309
# Rules of the second growth table: more than any real file has together with so many wildcards.
_WILD_GROWTH = 5000
# The largest files, of which the longest block of the event loop is measured.
_BLOCKS = 10


@dataclass(frozen=True, slots=True)
class Plan:
    """How much is measured.

    :param files: how many files are generated, or read of a corpus; `None` reads all.
    :param repeat: repetitions of which the best counts.
    :param hostile_limit: seconds that a parser may take for hostile verdicts.
    :param pages: pages a crawl.
    :param rounds: crawls in each mode.
    :param memory_files: files whose bytes are counted.
    :param growth: rules of the generated file that is compared with twelve.
    :param wildcards: rules of the file whose rules all have a wildcard.
    :param life_files: files whose lives are measured.
    :param origins: origins in memory at once.
    :param hostile_size: octets of the files that take long to parse.
    """

    files: int | None
    repeat: int
    hostile_limit: float
    pages: int
    rounds: int
    memory_files: int
    growth: int
    wildcards: int
    life_files: int
    origins: int
    hostile_size: int


_FULL = Plan(
    files=1000,
    repeat=4,
    hostile_limit=5,
    pages=500,
    rounds=7,
    memory_files=1000,
    growth=generate.LARGEST,
    wildcards=528,
    life_files=200,
    origins=100_000,
    hostile_size=512_000,
)
_QUICK = Plan(
    files=30,
    repeat=1,
    hostile_limit=0.3,
    pages=0,
    rounds=0,
    memory_files=10,
    growth=1000,
    wildcards=60,
    life_files=2,
    origins=100,
    hostile_size=100_000,
)

#: What a table found for the last one: a number of the design and ours.
Found = list[tuple["Target", float]]


def _files(plan: Plan, corpus: Path | None) -> list[Sample]:
    if corpus is None:
        return generate.files(plan.files or 0, _SEED, largest=plan is _FULL)
    return samples.folder(corpus, random.Random(_SEED), None if plan is _FULL else plan.files)


def _show_verdicts(peers: Sequence[Peer], files: Sequence[Sample]) -> bool:
    found = verdicts.check(peers, files)
    rows = []
    for name in NAMES:
        count = found.counts.get(name)
        if count is None:
            rows.append([name, ABSENT, "", ""])
        else:
            rows.append([name, f"{count.allowed:,}", f"{count.checked:,}", f"{len(count.wrong):,}"])
    rows.append(["plain matcher", "", f"{found.expected:,}", "0"])
    head = ("verdicts", f"allowed of {found.urls:,}", f"of {found.checked_urls:,} checked", "wrong")
    print(
        table(
            "Verdicts: allow counts, and URLs on which a parser differs from the plain matcher",
            head,
            rows,
        )
    )
    for complaint in found.complaints():
        print(f"  wrong: {complaint}")
    print(f"verdicts of ours: {'right' if found.right else 'WRONG'}")
    return found.right


def _show_times(peers: Sequence[Peer], files: Sequence[Sample], plan: Plan) -> Found:
    times = timing.measure(peers, files, plan.repeat)
    urls = samples.URLS * 1000
    first = {name: fmean(one.first for one in found) / 1000 for name, found in times.items()}
    middle = {name: median(one.first for one in found) / 1000 for name, found in times.items()}
    passes = {name: fmean(one.passes for one in found) / urls for name, found in times.items()}
    warm = {name: fmean(one.warm for one in found) / urls for name, found in times.items()}
    print(
        table(
            "1. Parse and first verdict, us a file",
            ("", "mean", "ratio", "median", "ratio"),
            with_ratios(NAMES, (first, middle), OURS),
        )
    )
    print(
        table(
            f"2. Match after that, us a URL ({samples.URLS} a file; an index made on first use is"
            " in the first pass)",
            ("", "first pass", "ratio", "warm", "ratio"),
            with_ratios(NAMES, (passes, warm), OURS, 2),
        )
    )
    found: Found = [(targets.FIRST, first[OURS]), (targets.MATCH, warm[OURS])]
    if PROTEGO in first:
        found[1:1] = [(targets.FIRST_OF_PROTEGO, first[OURS] / first[PROTEGO])]
        found.append((targets.MATCH_OF_PROTEGO, warm[OURS] / warm[PROTEGO]))
    return found


def _growth_files(
    files: Sequence[Sample], corpus: Path | None, plan: Plan
) -> tuple[list[Sample], Sample]:
    """Files with twelve rules, and the largest."""
    largest = max(files, key=lambda sample: sample.rules)
    if corpus is not None and largest.rules >= generate.LARGEST:
        return [sample for sample in files if sample.rules == 12][:20], largest
    return _twelve(wild=False), generate.of_size(plan.growth, _SEED)


def _twelve(*, wild: bool) -> list[Sample]:
    return [generate.of_size(12, _SEED + turn, wild=wild) for turn in range(20)]


def _show_growth(
    peers: Sequence[Peer], few: Sequence[Sample], many: Sample, plan: Plan, what: str
) -> float:
    built = timing.measure(peers, [many], 2)
    with_few = {
        name: nanos / 1000 for name, nanos in timing.warm_match(peers, few, plan.repeat).items()
    }
    with_many = {
        name: nanos / 1000 for name, nanos in timing.warm_match(peers, [many], plan.repeat).items()
    }
    rows = with_ratios(NAMES, (with_few, with_many), OURS, 2)
    for row in rows:
        name = row[0]
        present_here = name in with_few
        row.append(f"{with_many[name] / with_few[name]:.2f}x" if present_here else "")
        row.append(
            f"{(built[name][0].first + built[name][0].passes) / 1e6:,.1f}" if present_here else ""
        )
    head = (
        "",
        "12 rules",
        "ratio",
        f"{many.rules:,} rules",
        "ratio",
        "growth",
        f"ms to {samples.URLS} verdicts",
    )
    print(table(f"3. Growth, {what}: match, us a URL, warm", head, rows))
    return with_many[OURS] / with_few[OURS]


def _show_wildcards(peers: Sequence[Peer], plan: Plan) -> Found:
    file = generate.wildcards(plan.wildcards, _SEED)
    warm = {
        name: nanos / 1000 for name, nanos in timing.warm_match(peers, [file], plan.repeat).items()
    }
    head = ("", "us a URL", "ratio")
    print(
        table(
            f"4. Match with {plan.wildcards} wildcard rules, warm",
            head,
            with_ratios(NAMES, (warm,), OURS, 2),
        )
    )
    return [(targets.WILDCARDS, warm[OURS])]


def _show_lives(peers: Sequence[Peer], files: Sequence[Sample], plan: Plan) -> Found:
    shown = [peer for peer in peers if peer.name in (OURS, CORE, PROTEGO)]
    names = [peer.name for peer in shown]
    means, after = lives.measure(shown, files[: plan.life_files], plan.repeat)
    columns = [*means.values(), after]
    head = [
        "",
        *(cell for n in lives.LENGTHS for cell in (f"n = {n:,}", "ratio")),
        f"2 to {lives.NEXT}",
        "ratio",
    ]
    print(
        table(
            "8. Parse and n verdicts on other URLs, us a file, mean",
            head,
            with_ratios(names, columns, OURS),
        )
    )
    found: Found = [(targets.LIVES[length], means[length][CORE]) for length in lives.LENGTHS]
    return [*found, (targets.NEXT, after[CORE])]


def _show_patterns(peers: Sequence[Peer], plan: Plan) -> Found:
    shown = [peer for peer in peers if peer.name in (CORE, PROTEGO)]
    rows, found = [], []
    for name, file in bounds.wildcards().items():
        if len(file.urls) > 1:
            took = {peer.name: bounds.following(peer, file, plan.repeat) for peer in shown}
        else:
            warm = timing.warm_match(shown, [file], plan.repeat)
            took = {name: nanos / 1000 for name, nanos in warm.items()}
        peers_took = took.get(PROTEGO)
        ratio = "" if peers_took is None else f"{peers_took / took[CORE]:,.2f}x"
        rows.append(
            (
                name,
                f"{took[CORE]:,.1f}",
                ABSENT if peers_took is None else f"{peers_took:,.1f}",
                ratio,
            )
        )
        found.append((targets.PATTERNS[name], took[CORE]))
    print(table("9. Rules that cost much, us a URL, warm", ("", CORE, PROTEGO, "ratio"), rows))
    return found


def _show_bounds(files: Sequence[Sample], plan: Plan) -> Found:
    remembered = bounds.origins(files, plan.origins)
    largest = sorted((file.body for file in files), key=len)[-_BLOCKS:]
    real = max(bounds.longest_block(body, plan.repeat) for body in largest)
    hostile_files = max(
        bounds.longest_block(body, plan.repeat) for body in bounds.hostile(plan.hostile_size)
    )
    return [
        *((target, getattr(remembered, name)) for name, target in targets.ORIGINS.items()),
        (targets.BLOCK, real),
        (targets.BLOCK_HOSTILE, hostile_files),
    ]


def _show_hostile(peers: Sequence[Peer], plan: Plan) -> Found:
    size = hostile.SIZES[1]
    outcomes = {peer.name: hostile.guarded(peer, *size, plan.hostile_limit) for peer in peers}
    ours = outcomes[OURS].micros
    rows = []
    for name in NAMES:
        outcome = outcomes.get(name)
        if outcome is None:
            rows.append([name, ABSENT, ""])
        elif outcome.answered:
            rows.append([name, f"{outcome.micros:,.1f} us", f"{outcome.micros / ours:.2f}x"])
        else:
            rows.append([name, f"> {plan.hostile_limit:g} s", f"> {outcome.micros / ours:,.0f}x"])
    title = (
        f"5. One hostile rule of {size[0]:,} octets (/*a*a*a...b), a URL of {size[1]:,} (/aaaa...)"
    )
    print(table(title, ("", "one verdict", "ratio"), rows))
    peer = next(peer for peer in peers if peer.name == OURS)
    micros = [hostile.verdict_time(peer, *sizes, repeat=plan.repeat * 5) for sizes in hostile.SIZES]
    steps = [after / before for before, after in pairwise(micros)]
    shown = ", ".join(
        f"{rule:,} x {url:,}: {took:,.0f} us"
        for (rule, url), took in zip(hostile.SIZES, micros, strict=True)
    )
    print(f"ours, rule x URL octets: {shown}")
    return [(targets.HOSTILE, max(steps))]


def _show_memory(peers: Sequence[Peer], files: Sequence[Sample], plan: Plan) -> Found:
    sizes = memory.measure(peers, files[: plan.memory_files])
    columns = [
        {name: getattr(one, stage) for name, one in sizes.items()}
        for stage in ("parsed", "asked", "used")
    ]
    head = ("", "parsed", "ratio", "first verdict", "ratio", f"{samples.URLS} verdicts", "ratio")
    print(
        table(
            "6. Bytes a file in use, mean (by Python's allocator: what reppy allocates in C++ is"
            " not seen)",
            head,
            with_ratios(NAMES, columns, OURS, 0),
        )
    )
    return [(targets.MEMORY, memory.remembered(files[: plan.memory_files]) / 1024)]


def _show_crawls(plan: Plan) -> Found:
    found = crawls.measure(plan.pages, plan.rounds)
    rows = [
        [
            mode,
            f"{one.rate:,.0f}",
            f"{one.rate / found[OUR_CRAWL].rate:.2f}x",
            f"{one.cpu:,.0f}",
            f"{one.of_off:.3f}",
            f"{one.cpu_of_off:.3f}",
        ]
        for mode, one in found.items()
    ]
    head = ("", "pages/s", "ratio", "CPU us/page", f"of {OFF}", "by CPU time")
    print(
        table(
            f"7. Whole crawls of a local site, warm ({plan.pages} pages, {plan.rounds} rounds,"
            " medians)",
            head,
            rows,
        )
    )
    return [
        (targets.CRAWL, found[OUR_CRAWL].of_off),
        (targets.CRAWL_CPU, found[OUR_CRAWL].cpu_of_off),
    ]


def _show_files(files: Sequence[Sample], corpus: Path | None) -> None:
    sizes = [len(sample.body) for sample in files]
    versions = ", ".join(f"{name} {metadata.version(name)}" for name in ("Scrapy", "Protego"))
    load = f"{os.getloadavg()[0]:.1f} of {os.cpu_count()} processors busy before the start"
    print(f"CPython {platform.python_version()}, {versions}; {load}")
    print(
        f"{len(files)} files {'of the corpus' if corpus else f'generated with seed {_SEED}'}: mean"
        f" {fmean(sizes):,.0f} B, median {median(sizes):,.0f} B; rules median"
        f" {median(sample.rules for sample in files):,.0f}, largest"
        f" {max(sample.rules for sample in files):,}; {samples.URLS} URLs a file, for"
        f" {samples.AGENT}"
    )
    print(
        f"Ratios are to '{OURS}', the parser interface that peers have too; '{CORE}' is what the"
        " middleware calls."
    )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument(
        "--corpus", type=Path, metavar="DIR", help="measure on the robots.txt files of a folder"
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="few files, no crawls: whether it runs and verdicts are right",
    )
    parser.add_argument("--no-crawls", action="store_true", help="leave out table 7")
    return parser.parse_args()


def main() -> int:
    """Measure everything; 1 where a verdict of ours is wrong."""
    arguments = _arguments()
    logging.disable()  # a parser that complains about a file would be measured writing
    plan = _QUICK if arguments.quick else _FULL
    files = _files(plan, arguments.corpus)
    peers = present()
    _show_files(files, arguments.corpus)
    right = _show_verdicts(peers, files)
    found = _show_times(peers, files, plan)
    growth = _show_growth(
        peers,
        *_growth_files(files, arguments.corpus, plan),
        plan,
        "plain rules as in the largest real file",
    )
    found.append((targets.GROWTH, growth))
    if plan is _FULL:
        many = generate.of_size(_WILD_GROWTH, _SEED, wild=True)
        _show_growth(peers, _twelve(wild=True), many, plan, "14 % of the rules with wildcards")
    found += _show_wildcards(peers, plan)
    found += _show_hostile(peers, plan)
    found += _show_memory(peers, files, plan)
    found += _show_lives(peers, files, plan)
    found += _show_patterns(peers, plan)
    found += _show_bounds(files, plan)
    if plan.rounds and not arguments.no_crawls:
        found += _show_crawls(plan)
    rows = [targets.row(target, value) for target, value in found]
    print(table("The numbers of the design", ("", "ours", "asked for", ""), rows))
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
