"""The benchmark runs, its files have the measured distribution, and it notices a wrong verdict."""

from __future__ import annotations

import random
import subprocess
import sys
from statistics import fmean, median
from typing import TYPE_CHECKING

import pytest

from bench import generate, verdicts
from bench.generate import LARGEST
from bench.peers import CORE, OURS, Peer, named
from bench.plain import Plain
from bench.samples import AGENT, URLS, folder

if TYPE_CHECKING:
    from pathlib import Path

    from bench.peers import Ask
    from bench.samples import Sample

pytestmark = pytest.mark.once


@pytest.fixture(scope="module")
def files() -> list[Sample]:
    """Files as a full run measures them."""
    return generate.files(1000)


def test_a_quick_run_ends_well_and_shows_every_table() -> None:
    """`python -m bench --quick` prints its tables, finds our verdicts right and exits with 0."""
    command = [sys.executable, "-m", "bench", "--quick"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "verdicts of ours: right" in done.stdout
    for title in (
        "1. Parse",
        "2. Match",
        "3. Growth",
        "4. Match",
        "5. One hostile",
        "6. Bytes",
        "8. Parse",
        "9. Rules",
        "The numbers",
    ):
        assert f"\n{title}" in done.stdout


def test_sizes_are_as_measured(files: list[Sample]) -> None:
    """Octets a file lie near the mean and the median of the real files."""
    assert 3000 < fmean(len(file.body) for file in files) < 5200
    assert 400 < median(len(file.body) for file in files) < 750


def test_rule_counts_are_as_measured(files: list[Sample]) -> None:
    """Rules a file lie near the quantiles of the real files, and one file has as many as the
    largest.
    """
    rules = sorted(file.rules for file in files)
    assert 9 <= rules[500] <= 15
    assert 65 <= rules[900] <= 97
    assert 380 <= rules[990] <= 700
    assert rules[-1] == pytest.approx(LARGEST, rel=0.01)


def test_wildcards_are_as_frequent_as_measured(files: list[Sample]) -> None:
    """About 14 % of the rules have `*` inside and 1.8 % end in `$`.

    The largest file has none, as the real one.
    """
    patterns = []
    for file in files:
        if file.rules < LARGEST / 2:
            lines = file.body.decode().splitlines()
            patterns += [
                line.partition(":")[2].strip()
                for line in lines
                if line.lower().startswith(("allow", "disallow"))
            ]
    inside = sum("*" in pattern.rstrip("*") for pattern in patterns) / len(patterns)
    at_end = sum(pattern.endswith("$") for pattern in patterns) / len(patterns)
    assert 0.11 < inside < 0.17
    assert 0.012 < at_end < 0.026


def test_a_seed_gives_the_same_files() -> None:
    """Two runs measure the same files and URLs; another seed gives others."""
    assert generate.files(20, 1) == generate.files(20, 1)
    assert generate.files(20, 1) != generate.files(20, 2)


def test_a_corpus_is_a_file_a_host(tmp_path: Path) -> None:
    """A folder's `.txt` files are read in the order of their names, with URLs of the host that
    each is named after.
    """
    (tmp_path / "b.example.txt").write_bytes(b"User-agent: *\nDisallow: /x\n")
    (tmp_path / "a.example.txt").write_bytes(b"")
    (tmp_path / "notes.md").write_bytes(b"")
    found = folder(tmp_path, random.Random(1))
    assert [(file.name, file.rules, len(file.urls)) for file in found] == [
        ("a.example", 0, URLS),
        ("b.example", 1, URLS),
    ]
    assert all(url.startswith("https://b.example/") for url in found[1].urls)


@pytest.mark.parametrize(
    ("rules", "path", "allowed"),
    [
        ("Disallow: /a", "/ab", False),
        ("Disallow: /a$", "/ab", True),
        ("Disallow: /*b", "/aab", False),
        ("Disallow: /a\nAllow: /ab", "/abc", True),
        ("Allow: /a\nDisallow: /a", "/a", True),
        ("Disallow: /%61%2F", "/a/b", True),
        ("Disallow: /%61%2F", "/a%2fb", False),
        ("Disallow: /*=1", "/x?id=1", False),
        ("Disallow: /*%3D1", "/x?id=1", True),
        ("Disallow: /", "/robots.txt", True),
    ],
)
def test_the_plain_matcher(rules: str, path: str, *, allowed: bool) -> None:
    """What verdicts are compared with says itself what RFC 9309 and the decisions say."""
    body = f"User-agent: *\nDisallow: /never\n{rules}\n".encode()
    assert Plain(body, AGENT).allowed(f"https://site.example{path}") is allowed


def test_a_wrong_verdict_is_noticed() -> None:
    """A parser that allows everything in place of ours makes the check fail and names the URL."""

    def everything(_body: bytes, _host: str) -> Ask:
        return lambda _url, _agent: True

    files = generate.files(5)
    right = verdicts.check([named(OURS), named(CORE)], files)
    wrong = verdicts.check([Peer(OURS, everything), named(CORE)], files)
    assert right.right
    assert not wrong.right
    assert "https://site" in wrong.complaints()[0]
