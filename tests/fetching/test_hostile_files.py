"""What a file that is made to cost much costs the pages of a crawl with many agents."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from scrapy_robots_rfc.core.agents import Agent
from scrapy_robots_rfc.core.explanation import explain, records_of
from scrapy_robots_rfc.core.robotstxt import RobotsTxt
from scrapy_robots_rfc.fetching.parsed import ParsedRobots
from scrapy_robots_rfc.policy import pacing

if TYPE_CHECKING:
    from collections.abc import Callable

NAMES = [f"bot-{chr(97 + number // 26)}{chr(97 + number % 26)}" for number in range(40)]
AGENTS = [Agent((name,), name) for name in NAMES]
LINES = 400
RECORDS = [
    f"{key}: {1 + number}\n"
    for number in range(LINES // 4)
    for key in ("Crawl-delay", "Request-rate: 1/5 #")
] + [
    f"{key} 0{number % 10}00-1200\n"
    for number in range(LINES // 4)
    for key in ("Request-rate: 1/7", "Request-rate: 1/9")
]
FILES = {
    "one group for all": "User-agent: *\n" + "".join(RECORDS),
    "one group that names all": "".join(f"User-agent: {name}\n" for name in NAMES)
    + "".join(RECORDS),
    "many groups of each": "".join(
        f"User-agent: {NAMES[number % 40]}\n{record}Allow: /\n"
        for number, record in enumerate(RECORDS)
    ),
    "many user-agent lines": "".join(
        f"User-agent: {NAMES[number % 40]}\n{record}" for number, record in enumerate(RECORDS)
    ),
}


@pytest.mark.parametrize("name", FILES)
def test_records_of_pace_are_read_once(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The records of a group are read once, and no others."""
    read: list[str] = []

    def noted(parse: Callable[[str], object], value: str) -> object:
        read.append(value)
        return parse(value)

    for kind in ("parse_delay", "parse_rate"):
        monkeypatch.setattr(pacing, kind, partial(noted, getattr(pacing, kind)))
    file = ParsedRobots(None, RobotsTxt.parse(FILES[name].encode()))
    assert file.pace(AGENTS[0]) is not None
    assert len(read) == (LINES // 40 if name == "many groups of each" else LINES)
    assert None not in [file.pace(agent) for agent in AGENTS]
    count = len(read)
    assert None not in [file.pace(agent) for agent in AGENTS]
    assert len(read) == count


def test_pace_of_very_many_records() -> None:
    """The first thousand records of a group count."""
    delays = "".join(f"Crawl-delay: {number}\n" for number in range(1, 1_100))
    file = ParsedRobots(None, RobotsTxt.parse(f"User-agent: *\n{delays}".encode()))
    assert file.crawl_delay(AGENTS[0]) == 1_099.0
    found = file.pace(AGENTS[0])
    assert found is not None
    assert found.bounds[0].seconds == 1_000.0


@pytest.mark.parametrize("name", FILES)
def test_pace_of_each_agent(name: str) -> None:
    """The interval of an agent comes from the records of its own groups."""
    robots = RobotsTxt.parse(FILES[name].encode())
    file = ParsedRobots(None, robots)
    for agent in AGENTS:
        own = [
            record
            for group in explain(robots, "/", agent.tokens).groups
            for record in records_of(robots)
            if record.key in pacing.KEYS and group.line < record.line <= group.last
        ]
        assert file.pace(agent) == pacing.pace_of(own)
