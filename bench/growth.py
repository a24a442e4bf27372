"""`python -m bench.growth [--quick]`: how costs grow with rules, wildcards, groups, URLs, agents
and origins.

Ours beside Protego, in turn in one run; then what a memory of many origins costs, without a
network, each in a process of its own; then the worst realistic file and the worst hostile one that
are known. The last row of a table of growth is the law of each column.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from time import perf_counter_ns
from typing import TYPE_CHECKING

from bench import bounds, generate
from bench.peers import CORE, PROTEGO, named
from bench.report import table
from bench.timing import quiet

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.peers import Peer

_HOST = "site.example"
_BASE = f"https://{_HOST}"
#: Nanoseconds that a row may take a parser; beyond that, the larger rows are not measured.
_PATIENCE = 3e9
_REPEAT = 5


@dataclass(frozen=True, slots=True)
class Case:
    """Files and questions of one size.

    :param bodies: the files that are read.
    :param urls: each file is asked for all of them.
    :param agents: asked in turn.
    """

    bodies: Sequence[bytes]
    urls: Sequence[str]
    agents: Sequence[str] = ("AnyBot",)


def _rules(count: int) -> Case:
    lines = (
        f"{'Allow' if n % 7 == 0 else 'Disallow'}: /shop/{n * 7919 % 10_007}/{n}/"
        for n in range(count)
    )
    return Case([_file(lines)], [f"{_BASE}/shop/{n * 7919 % 10_007}/{n}/page" for n in range(20)])


def _wildcards(count: int) -> Case:
    lines = (
        f"Disallow: /*{('/cat{}/', '?sort{}=', '-item{}$')[n % 3].format(n)}" for n in range(count)
    )
    return Case([_file(lines)], [f"{_BASE}/a/cat{n}/b?sort{n}x" for n in range(20)])


def _alike(count: int) -> Case:
    lines = (f"Disallow: /*/products/*{n}a" for n in range(count))
    return Case([_file(lines)], [f"{_BASE}/shop/products/{n}b" for n in range(20)])


def _groups(count: int) -> Case:
    groups = (f"User-agent: bot{_letters(n)}\nDisallow: /{n}\n\n" for n in range(count - 1))
    return Case(
        ["".join([*groups, "User-agent: *\nDisallow: /x\n"]).encode()],
        [f"{_BASE}/{n}" for n in range(20)],
    )


def _url_length(count: int) -> Case:
    (body,) = _rules(100).bodies
    path = "ab%c3%A4/" * (count // 9 + 1)
    return Case([body], [f"{_BASE}/{n:02}{path[: max(0, count - 3)]}" for n in range(20)])


def _agents(count: int) -> Case:
    (body,) = _rules(100).bodies
    return Case(
        [body], [f"{_BASE}/shop/{n}" for n in range(3)], [f"bot{_letters(n)}" for n in range(count)]
    )


def _letters(number: int) -> str:
    return "".join("abcdefghij"[int(digit)] for digit in str(number))


def _file(lines: object) -> bytes:
    return ("User-agent: *\n" + "\n".join(lines) + "\n").encode()  # type: ignore[arg-type]  # generators of lines


Make = Callable[[int], Case]

#: What grows, its sizes, and what is measured of it.
TABLES: Sequence[tuple[str, Sequence[int], Make]] = (
    ("plain rules", (12, 100, 1_000, 10_000, 50_000), _rules),
    ("wildcard rules", (10, 100, 1_000, 5_000), _wildcards),
    ("wildcard rules that share their longest literal", (10, 100, 1_000, 5_000), _alike),
    ("groups", (1, 10, 100, 1_000, 10_000), _groups),
    ("characters of a path", (10, 100, 1_000, 8_000), _url_length),
    ("agents that ask", (1, 10, 50, 200), _agents),
)
#: Origins in one memory, each with one of so many files.
ORIGINS, FILES = (10_000, 100_000, 1_000_000), 1_000
_QUICK = 1_000

#: The worst that is known: a name, and the file with its questions.
WORST: Sequence[tuple[str, Case]] = (
    (
        "realistic: 31,843 plain rules, 528 wildcards",
        Case(
            [_rules(31_843).bodies[0] + _wildcards(528).bodies[0]],
            [f"{_BASE}/shop/{n}/x?sort{n}=" for n in range(20)],
        ),
    ),
    (
        "hostile: 32,236 rules `/*aaa*X` and a URL of 2,071 characters",
        Case([_file("Disallow: /*aaa*X" for _ in range(32_236))], [f"{_BASE}/{'a' * 2_050}"]),
    ),
    (
        "hostile: the letters `low` 128,000 times",
        Case([b"User-agent: *\n" + b"low\n" * 128_000], [f"{_BASE}/x"]),
    ),
    (
        "hostile: `user-agent:` 39,000 times",
        Case([b"user-agent:\n" * 39_000 + b"Disallow: /x\n"], [f"{_BASE}/x"]),
    ),
    (
        "hostile: `dissalow /x` without a colon",
        Case([b"User-agent: *\n" + b"dissalow /x\n" * 42_000], [f"{_BASE}/x"]),
    ),
    (
        "hostile: a URL of 8,000 characters full of escapes",
        Case(_rules(100).bodies, [f"{_BASE}/{'%c3%A4%2f' * 880}"]),
    ),
)


def _itself(case: Case) -> Case:
    """Make nothing anew: the case is there."""
    return case


def measure(peer: Peer, case: Case) -> tuple[float, float]:
    """Microseconds of reading a file with its first verdict, and of a later verdict.

    The best of several.
    """
    first = later = float("inf")
    agents = case.agents if isinstance(peer.agent, str) else [(agent,) for agent in case.agents]
    begun = perf_counter_ns()
    for _ in range(_REPEAT):
        start = perf_counter_ns()
        asks = [peer.load(body, _HOST) for body in case.bodies]
        for ask in asks:
            ask(case.urls[0], agents[0])
        first = min(first, (perf_counter_ns() - start) / len(asks))
        for _ in range(2):  # what is built at the second question is not in the best
            start = perf_counter_ns()
            for agent in agents:
                for url in case.urls:
                    for ask in asks:
                        ask(url, agent)
            later = min(
                later, (perf_counter_ns() - start) / (len(agents) * len(case.urls) * len(asks))
            )
        if perf_counter_ns() - begun > _PATIENCE:
            break
    return first / 1000, later / 1000


def law(sizes: Sequence[float], costs: Sequence[float]) -> str:
    """The law by which a cost grows between the two largest sizes.

    By the power of the size that it grows with.
    """
    (small, large), (before, after) = sizes[-2:], costs[-2:]
    power = math.log(after / before) / math.log(large / small)
    return next((name for most, name in _LAWS if power < most), "above linear")


#: A cost that grows with the logarithm is 1.3 to 1.1 times as high at ten times the size, in
#: theory. It is measured with noise, and a larger table misses the processor's caches more often.
_LAWS = ((0.1, "constant"), (0.35, "log"), (1.3, "linear"))


def with_laws(table_rows: list[list[str]], columns: Sequence[int]) -> list[list[str]]:
    """Add the row of the laws, for some columns of numbers; those that are missing are left out."""
    last = ["law", *[""] * (len(table_rows[0]) - 1)]
    for column in columns:
        cells = [
            (_number(cells[0]), _number(cells[column]))
            for cells in table_rows
            if cells[column] not in ("", "-")
        ]
        measured = [(size, cost) for size, cost in cells if cost]
        if len(measured) > 1:
            last[column] = law(*zip(*measured, strict=True))
    return [*table_rows, last]


def _number(cell: str) -> float:
    return float(cell.replace(",", ""))


def of_origins(count: int) -> list[str]:
    """A row of the table of origins, measured in a process of its own."""
    command = [sys.executable, "-m", "bench.growth", "--child", str(count)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return [f"{count:,}", *(f"{cost:,.2f}" for cost in json.loads(done.stdout))]


def rows(sizes: Sequence[tuple[str, Callable[[], Case]]]) -> list[list[str]]:
    """A row a size: ours and Protego's microseconds, with the ratio."""
    found, patient = [], True
    for name, make in sizes:
        case = make()
        with quiet():
            first, later = measure(named(CORE), case)
            begun = perf_counter_ns()
            theirs = measure(named(PROTEGO), case) if patient else None
            patient = patient and perf_counter_ns() - begun < 10 * _PATIENCE
        cells = [name]
        for ours, other in ((first, theirs and theirs[0]), (later, theirs and theirs[1])):
            cells += [
                f"{ours:,.1f}",
                f"{other:,.1f}" if other else "-",
                f"{other / ours:,.1f}x" if other else "",
            ]
        found.append(cells)
    return found


_HEAD = ("", "first, us", "Protego", "", "later, us", "Protego", "")
_HEAD_ORIGINS = (
    "",
    "put and first, us",
    "in turn, us",
    "at random, us",
    "collector, ms",
    "KiB each",
)


def main() -> None:
    """Print all tables."""
    parser = argparse.ArgumentParser(prog="python -m bench.growth", description=__doc__)
    parser.add_argument(
        "--quick", action="store_true", help=f"leave sizes above {_QUICK:,} and the worst files out"
    )
    parser.add_argument("--child", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(bounds.origins(generate.files(FILES), options.child)))
        return
    quick: bool = options.quick
    print(
        "first: a file is read and asked once. later: one more question, when all that is built is"
        " built."
    )
    for what, sizes, make in TABLES:
        taken = [size for size in sizes if not quick or size <= _QUICK]
        found = rows([(f"{size:,}", partial(make, size)) for size in taken])
        print(table(f"Growth with {what}", _HEAD, with_laws(found, (1, 2, 4, 5))))
    found = [of_origins(count) for count in (ORIGINS if not quick else (_QUICK, 10 * _QUICK))]
    print(
        table(
            "Growth with origins in memory",
            _HEAD_ORIGINS,
            with_laws(found, range(1, len(_HEAD_ORIGINS))),
        )
    )
    if not quick:
        print(
            table(
                "The worst that is known",
                _HEAD,
                rows([(name, partial(_itself, case)) for name, case in WORST]),
            )
        )


if __name__ == "__main__":
    main()
