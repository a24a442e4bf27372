"""The numbers that the design asks for, and whether ours reach them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Target:
    """One number of the design.

    :param name: what is measured.
    :param unit: of what.
    :param limit: the number that must be reached.
    :param at_least: whether more is better.
    """

    name: str
    unit: str
    limit: float
    at_least: bool = False

    def reached(self, value: float) -> bool:
        """Whether a measured value is good enough."""
        return value >= self.limit if self.at_least else value <= self.limit


FIRST = Target("parse and first verdict", "us/file", 45)
FIRST_OF_PROTEGO = Target("parse and first verdict, share of Protego's", "", 0.2)
MATCH = Target("match", "us/URL", 1.3)
MATCH_OF_PROTEGO = Target("match, share of Protego's", "", round(1 / 3.5, 3))
GROWTH = Target("match with 31,843 rules, times that with 12", "", 1.5)
WILDCARDS = Target("match with 528 wildcard rules", "us/URL", 6)
HOSTILE = Target("hostile rule, cost when the octets double (2: linear)", "", 3)
LIVES = {n: Target(f"parse and {n:,} verdicts", "us/file", us) for n, us in
         {1: 45, 2: 60, 5: 62, 20: 80, 100: 200, 1000: 1250}.items()}  # fmt: skip
NEXT = Target("verdicts 2 to 21 together", "us/file", 36)
#: What `bounds.wildcards` measures.
PATTERNS = {
    "100 wildcard rules": Target("match with 100 wildcard rules", "us/URL", 3),
    "5,000 that share a literal": Target(
        "match with 5,000 rules that share their longest literal", "us/URL", 20
    ),
    "32,236 of /*aaa*X": Target(
        "match with 32,236 rules /*aaa*X, URL of 2,071 octets", "us/URL", 2000
    ),
    "8,000 octets of escapes": Target(
        "match of a URL of 8,000 octets full of escapes", "us/URL", 150
    ),
    "1,000 plain, 2 to 20": Target("1,000 plain rules, verdicts 2 to 20 together", "us", 100),
}
#: What `bounds.origins` measures, by the names of its fields.
ORIGINS = {
    "put": Target("origins in memory: put and first verdict", "us", 100),
    "in_turn": Target("origins in memory: asked in turn", "us/question", 50),
    "at_random": Target("origins in memory: asked at random", "us/question", 50),
    "pause": Target("origins in memory: longest pause of the garbage collector", "ms", 150),
    "kib": Target("origins in memory: each of them", "KiB", 2.5),
}
BLOCK = Target("longest block of the event loop, files of the tables", "ms", 10)
BLOCK_HOSTILE = Target("longest block of the event loop, hostile files of 512,000 octets", "ms", 20)
MEMORY = Target("memory of an origin whose file is not parsed", "KiB", 1.5)
HOST = Target("memory of a host, everything included", "KiB/host", 1.5)
IDLE = Target("memory of one more host, all of them remembered", "KiB/host", 2.5)
CRAWL = Target("whole crawl, share of ROBOTSTXT_OBEY=False", "", 0.97, at_least=True)
CRAWL_CPU = Target("whole crawl, the same by processor time", "", 0.97, at_least=True)


def row(target: Target, value: float) -> tuple[str, ...]:
    """What a table shows of it."""
    sign = ">=" if target.at_least else "<="
    result = "reached" if target.reached(value) else "MISSED"
    return target.name, f"{value:.3g} {target.unit}".strip(), f"{sign} {target.limit:g}", result
