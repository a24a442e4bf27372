"""What a file that is made to cost much costs the pages of a crawl with many agents."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from scrapy_robots_rfc.core.agents import Agent
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
def test_records_of_pace_are_read_once_for_all_agents(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each record is read once, before the first page, for any number of agents."""
    read: list[str] = []

    def noted(parse: Callable[[str], object], value: str) -> object:
        read.append(value)
        return parse(value)

    for kind in ("parse_delay", "parse_rate"):
        monkeypatch.setattr(pacing, kind, partial(noted, getattr(pacing, kind)))
    file = ParsedRobots(None, RobotsTxt.parse(FILES[name].encode()))
    file.prepare(AGENTS[0])
    assert len(read) == LINES
    for _ in range(2):
        assert None not in [file.pace(agent) for agent in AGENTS]
    assert len(read) == LINES


@pytest.mark.parametrize("name", FILES)
def test_pace_of_each_agent(name: str) -> None:
    """The interval of an agent comes from the records of its own groups."""
    robots = RobotsTxt.parse(FILES[name].encode())
    file = ParsedRobots(None, robots)
    for agent in AGENTS:
        chosen = robots.select_group(agent.tokens)
        assert chosen is not None
        groups = robots.records_by_group(*pacing.KEYS)
        own = [record for keys, records in groups if chosen[1] in keys for record in records]
        assert file.pace(agent) == pacing.pace_of(own)
