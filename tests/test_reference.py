"""Verdicts of the reference parser, which are not in the repository.

They are in `../shared`, or where the environment variable ROBOTS_SHARED says. Without them, the
test is skipped.
"""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path

import pytest

from scrapy_robots_rfc.parser import RfcRobotParser

SHARED = Path(os.environ.get("ROBOTS_SHARED", Path(__file__).parents[2] / "shared"))
REFERENCE = SHARED / "conformance" / "reference.jsonl.gz"


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
