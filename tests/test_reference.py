"""Verdicts of the reference parser, and real robots.txt files, which are not in the repository.

They are in `../shared`, or where the environment variable ROBOTS_SHARED says. Without them, these
tests are skipped.
"""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path

import pytest

from scrapy_robots_rfc.core.decision import Reason
from scrapy_robots_rfc.core.findings import explain, groups_of, lines_of
from scrapy_robots_rfc.core.lines import LineKind
from scrapy_robots_rfc.core.robotstxt import RobotsTxt
from scrapy_robots_rfc.parser import RfcRobotParser

SHARED = Path(os.environ.get("ROBOTS_SHARED", Path(__file__).parents[2] / "shared"))
REFERENCE = SHARED / "conformance" / "reference.jsonl.gz"
CORPUS = SHARED / "corpus"
TARGETS = ["/", "/search?q=a&b=c", "/wp-admin/index.php", "/%E3%83%84", "/*", "/?s=%2F"]


@pytest.mark.skipif(not REFERENCE.exists(), reason=f"{REFERENCE.name} does not exist")
def test_verdicts_of_the_reference_parser() -> None:
    """The first and later verdicts equal the reference verdicts, which follow the RFC."""
    wrong = []
    with gzip.open(REFERENCE, "rt", encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            case = json.loads(line)
            parser = RfcRobotParser.from_crawler(None, case["body"].encode("latin-1"))
            verdicts = [parser.allowed(case["url"], case["agent"]) for _ in range(2)]
            if verdicts != [case["allowed"]] * 2:
                wrong.append((number, case))
    assert wrong == []


@pytest.mark.skipif(not CORPUS.is_dir(), reason=f"{CORPUS.name} does not exist")
def test_real_files() -> None:
    """In real files, rules have their line numbers, and the deciding rule is in the group that
    applies.
    """
    files = sorted(CORPUS.glob("*.txt"))
    assert files
    for file in files:
        robots = RobotsTxt.parse(file.read_bytes())
        lines = {line.number: line for line in lines_of(robots)}
        for group in groups_of(robots):
            assert all(lines[rule.line].value == rule.pattern for rule in group.rules), file.name
            assert lines[group.line].kind is LineKind.USER_AGENT, file.name
        for tokens in (["Googlebot-Image", "Googlebot"], ["Scrapy"]):
            applying = explain(robots, "/", tokens)
            rules = {rule for group in applying.groups for rule in group.rules}
            for target in TARGETS * 2:
                decision = robots.decide(f"https://e.example{target}", tokens)
                case = file.name, target
                assert (decision.reason is Reason.NO_GROUP) is (applying.token is None), case
                assert decision.rule is None or decision.rule in rules, case
