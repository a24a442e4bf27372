"""Measure how costs grow with rules, groups, URLs and agents: `python -m bench.growth`.

Protego is measured in the same run, and the fastest of several runs counts. "First" is reading the
file and one verdict, and "later" is one more verdict. The last tables have the files and pages that
cost most.
"""

import argparse
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from time import perf_counter_ns, process_time_ns

from scrapy.http import HtmlResponse

from bench.files import AGENT
from bench.parsers import life, without_gc
from bench.peers import CORE, PEERS, PROTEGO, Peer
from bench.report import table
from scrapy_robots_rfc.core.agents import Agent
from scrapy_robots_rfc.usage.page_rules import rules_of, unendorsed

_BASE = "https://site.example"
_AGENT = Agent((AGENT,), AGENT)
# If Protego takes more microseconds than this, it is not measured with larger files.
_MAX_MICROS = 3e6
_REPEAT = 5
_MAX_QUICK = 1_000


@dataclass(frozen=True)
class Case:
    """A file, and the URLs and agents that parsers decide about."""

    body: bytes
    urls: Sequence[str]
    agents: Sequence[str] = (AGENT,)


def _file(lines: Iterable[str]) -> bytes:
    return "\n".join(("User-agent: *", *lines, "")).encode()


def _rules(count: int) -> Case:
    paths = [f"/shop/{n * 7919 % 10_007}/{n}/" for n in range(count)]
    lines = (f"{'Disallow' if n % 7 else 'Allow'}: {path}" for n, path in enumerate(paths))
    return Case(_file(lines), [f"{_BASE}{path}page" for path in paths[:20]])


def _wildcards(count: int) -> Case:
    shapes = ("/cat{}/", "?sort{}=", "-item{}$")
    lines = (f"Disallow: /*{shapes[n % 3].format(n)}" for n in range(count))
    return Case(_file(lines), [f"{_BASE}/a/cat{n}/b?sort{n}x" for n in range(20)])


def _alike(count: int) -> Case:
    lines = (f"Disallow: /*/products/*{n}a" for n in range(count))
    return Case(_file(lines), [f"{_BASE}/shop/products/{n}b" for n in range(20)])


def _groups(count: int) -> Case:
    groups = (f"User-agent: bot-{_letters(n)}\nDisallow: /{n}\n\n" for n in range(count - 1))
    body = "".join([*groups, "User-agent: *\nDisallow: /x\n"]).encode()
    return Case(body, [f"{_BASE}/{n}" for n in range(20)])


def _path_length(count: int) -> Case:
    path = "ab%c3%A4/" * (count // 9 + 1)
    return Case(_rules(100).body, [f"{_BASE}/{n:02}{path[: max(0, count - 3)]}" for n in range(20)])


def _agents(count: int) -> Case:
    urls = [f"{_BASE}/shop/{n}" for n in range(3)]
    return Case(_rules(100).body, urls, [f"bot-{_letters(n)}" for n in range(count)])


def _letters(number: int) -> str:
    return "".join("abcdefghij"[int(digit)] for digit in str(number))


#: What grows, its sizes, and the function that makes the case of a size.
GROWTH: Sequence[tuple[str, Sequence[int], Callable[[int], Case]]] = (
    ("plain rules", (12, 100, 1_000, 10_000, 50_000), _rules),
    ("wildcard rules", (10, 100, 1_000, 5_000), _wildcards),
    ("wildcard rules that share their longest literal", (10, 100, 1_000, 5_000), _alike),
    ("groups", (1, 10, 100, 1_000, 10_000), _groups),
    ("characters of a path", (10, 100, 1_000, 8_000), _path_length),
    ("agents", (1, 10, 50, 200), _agents),
)
#: The files that cost most.
WORST = {
    "31,843 plain rules, 528 wildcards": Case(
        _rules(31_843).body + _wildcards(528).body, [f"{_BASE}/shop/{n}?sort{n}=" for n in range(9)]
    ),
    "32,236 rules /*aaa*X, URL of 2,071 characters": Case(
        _file("Disallow: /*aaa*X" for _ in range(32_236)), [f"{_BASE}/{'a' * 2_050}"]
    ),
    "one rule /*a*a*a...b of 2,000 bytes": Case(
        _file([f"Disallow: /{'*a' * 1000}b"]), [f"{_BASE}/{'a' * 2000}"]
    ),
    "`low` 128,000 times": Case(_file(["low"] * 128_000), [f"{_BASE}/x"]),
    "`user-agent:` 39,000 times": Case(_file(["user-agent:"] * 39_000), [f"{_BASE}/x"]),
    "`user-agent: *` with a rule, 14,000 times": Case(
        _file(["Disallow: /x\nUser-agent: *"] * 14_000), [f"{_BASE}/x"]
    ),
    "`dissalow /x` without a colon": Case(_file(["dissalow /x"] * 42_000), [f"{_BASE}/x"]),
    "500,000 blank lines": Case(_file([""] * 500_000), [f"{_BASE}/x"]),
    "a URL of 8,000 characters full of escapes": Case(
        _rules(100).body, [f"{_BASE}/{'%c3%A4%2f' * 880}"]
    ),
}
_MEBI = 1 << 20
#: Web pages whose page rules cost most.
PAGES = {
    "meta tags": "<meta name=robots content=nofollow>" * (_MEBI // 35),
    "tags and links": "<p a=1 b=2><a rel=ugc href='/x?b=1&a=%7e'>" * (_MEBI // 42),
    "tags with attributes": "<p a=1 b=2>" * (_MEBI // 11),
    "open tags": "<" * _MEBI,
}


def measure(peer: Peer, case: Case) -> tuple[float, float]:
    """Return the microseconds of a file with its first verdict, and of a later verdict."""
    agents = case.agents
    first = min(life(peer, case.body, case.urls[:1], agents) for _ in range(_REPEAT))
    ask = peer.load(case.body)
    later = math.inf
    questions = [(url, agent) for agent in agents for url in case.urls]
    for _ in range(_REPEAT):
        start = perf_counter_ns()
        for url, agent in questions:
            ask(url, agent)
        later = min(later, (perf_counter_ns() - start) / 1000 / len(questions))
        if later > _MAX_MICROS:
            break
    return first, later


def compare(cases: Iterable[tuple[str, Case]]) -> list[list[str]]:
    """Return a row for each case: our times, and how many times as long Protego takes."""
    rows, is_protego_fast = [], True
    for name, case in cases:
        with without_gc():
            ours = measure(PEERS[CORE], case)
            theirs = measure(PEERS[PROTEGO], case) if is_protego_fast else None
        row = [name]
        for number, micros in enumerate(ours):
            ratio = "-" if theirs is None else f"{theirs[number] / micros:,.1f} times"
            row += [f"{micros:,.1f}", ratio]
        rows.append(row)
        is_protego_fast = theirs is not None and max(theirs) * len(case.urls) < _MAX_MICROS
    return rows


def page_rules(text: str) -> float:
    """Return the milliseconds that it takes to find the page rules of a web page."""
    page = HtmlResponse(f"{_BASE}/", body=text.encode()[:_MEBI], encoding="utf-8")
    assert page.text
    start = process_time_ns()
    rules_of(page, [AGENT])
    list(unendorsed(page))
    return (process_time_ns() - start) / 1e6


_HEAD = ("", "first, us", "Protego", "later, us", "Protego")


def main() -> None:
    """Print all tables."""
    parser = argparse.ArgumentParser(prog="python -m bench.growth", description=__doc__)
    help_text = f"only sizes up to {_MAX_QUICK:,}, and not the files that cost most"
    parser.add_argument("--quick", action="store_true", help=help_text)
    is_quick = parser.parse_args().quick
    for name, sizes, make in GROWTH:
        chosen = [size for size in sizes if size <= _MAX_QUICK or not is_quick]
        rows = compare((f"{size:,}", make(size)) for size in chosen)
        print(table(f"Growth with {name}", _HEAD, rows))
    if is_quick:
        return
    rows = compare(WORST.items())
    title = "Files that cost most (goals: first 100,000 us, later 5,000 us)"
    print(table(title, _HEAD, rows))
    times = {name: min(page_rules(text) for _ in range(_REPEAT)) for name, text in PAGES.items()}
    pages = [[name, f"{milliseconds:.1f}"] for name, milliseconds in times.items()]
    print(table("Page rules of web pages of 1 MiB (goal: 20 ms)", ("", "ms"), pages))


if __name__ == "__main__":
    main()
