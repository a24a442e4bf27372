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
MEMORY = Target("memory of an origin whose file is not in use", "KiB", 3)
HOST = Target("memory of a host, everything included", "KiB/host", 3)
CRAWL = Target("whole crawl, share of ROBOTSTXT_OBEY=False", "", 0.97, at_least=True)
CRAWL_CPU = Target("whole crawl, the same by processor time", "", 0.97, at_least=True)


def row(target: Target, value: float) -> tuple[str, ...]:
    """What a table shows of it."""
    sign = ">=" if target.at_least else "<="
    said = "reached" if target.reached(value) else "MISSED"
    return target.name, f"{value:.3g} {target.unit}".strip(), f"{sign} {target.limit:g}", said
