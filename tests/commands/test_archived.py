"""`scrapy robots check --archive` replays a decision from what a crawl stored."""

from __future__ import annotations

import base64
import gzip
import os
import re
import time
from typing import TYPE_CHECKING, Any

import pytest
from pytest_twisted import blockon
from twisted.internet.defer import Deferred

from scrapy_robots_rfc import _runtime
from tests.reporting.test_archive import members
from tests.support.case_files import tables
from tests.support.command_line import run
from tests.support.crawling import crawl
from tests.support.documents import block
from tests.support.reports import read, sha256
from tests.support.site import Reply, Site, redirect, robots as file

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.command_line import Done

FILE = "User-agent: *\nDisallow: /x\n"
GROUPS = "User-agent: foobot\nDisallow: /x\n\nUser-agent: *\nAllow: /\n"
USES = "User-agent: *\nContent-Usage: train-ai=n\nAllow: /\n"
SECOND = "robots-2.warc.gz"
DAMAGED = "robots.warc.gz is damaged; only the records before the damage were read"
MISSING = ("undecided", "the archive does not contain the file with this digest")
ADVICE = "pass all of the archive's files, or choose another time with --at"


def archive(path: Path, url: str, **settings: Any) -> None:
    """Crawl a page and write an archive."""
    blockon(Deferred.fromCoroutine(crawl([url], {"ROBOTS_ARCHIVE": str(path), **settings})))


def archived(path: Path, text: str, *crawls: dict[str, Any]) -> str:
    """Crawl a page once with each of the settings, and return its URL. Then the site is gone."""
    with Site({"/robots.txt": file(text)}) as site:
        for settings in crawls:
            archive(path, site.url("/x"), **settings)
        return site.url("/x")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The first file of an archive."""
    return tmp_path / "robots.warc.gz"


@pytest.fixture
def url(path: Path) -> str:
    """A page of a site that is gone, whose robots.txt is in the archive."""
    return archived(path, FILE, {})


def check(path: Path, *arguments: str) -> Done:
    """Run the command on an archive."""
    return run("check", "--archive", path.name, *arguments, folder=path.parent)


def verdicts(path: Path, *arguments: str) -> list[tuple[str, str]]:
    """The verdict on each URL, and why."""
    records = check(path, "--json", *arguments).records
    return [(record["verdict"], record["why"]) for record in records]


def unpacked(octets: bytes) -> bytes:
    """The bytes of an archive, unpacked and without the digests of its records."""
    return re.sub(rb"WARC-Block-Digest: \S+\r\n", b"", gzip.decompress(octets))


def rewrite_metadata(path: Path, before: bytes, after: bytes) -> None:
    """Replace a part of the last metadata record of an archive, without damaging it."""
    octets = unpacked(path.read_bytes())
    length = re.findall(rb"Content-Length: (\d+)", octets)[-1]
    head, _, tail = octets.rpartition(b"Content-Length: " + length)
    assert before in tail
    changed = b"Content-Length: %d" % (int(length) + len(after) - len(before))
    path.write_bytes(head + changed + tail.replace(before, after))


# What decides.


def test_a_decision_is_replayed(path: Path) -> None:
    """The command prints the decision and the rule, although the site is gone."""
    body, coding = gzip.compress(FILE.encode()), (("Content-Encoding", "gzip"),)
    with Site({"/robots.txt": redirect("/a"), "/a": Reply(200, body, coding)}) as site:
        archive(path, site.url("/x"))
        urls, target = (site.url("/x"), site.url("/y")), site.url("/a")
    assert verdicts(path, *urls) == [
        ("disallowed", "robots.txt line 2: Disallow: /x"),
        ("allowed", "robots.txt: no rule of the group `*` matches"),
    ]
    done = check(path, urls[0])
    assert (done.code, f"  redirected to {target}" in done.lines) == (1, True)


def test_the_agent_of_the_crawl_decides(path: Path) -> None:
    """The command judges for the agent in the archive, and prints it."""
    with Site({"/robots.txt": redirect("/a"), "/a": file(GROUPS)}) as site:
        archive(path, site.url("/x"), USER_AGENT="Mozilla/5.0 (compatible; FooBot/2.0)")
        url = site.url("/x")
    done = check(path, url)
    assert (done.code, done.err) == (1, "")
    assert done.lines[1] == "  why        robots.txt line 2: Disallow: /x"
    assert "  agent      FooBot (from the archive)" in done.lines
    record = check(path, url, "--json").records[0]
    assert (record["agent"], record["tokens"], record["group"]) == ("FooBot", ["FooBot"], "FooBot")


def test_another_agent_is_warned_of(path: Path) -> None:
    """The command warns about an agent that is not in the archive."""
    agents = (["foobot-news", "foobot"], "otherbot")
    url = archived(path, GROUPS, *({"ROBOTSTXT_USER_AGENT": agent} for agent in agents))
    both = ("--archive", SECOND, url, "--agent")
    assert check(path, *both, "foobot-news,foobot").err == ""
    crawls = "made for foobot-news,foobot and otherbot and not for"
    assert crawls in check(path, *both, "barbot").err
    same = check(path, url, "--agent", "FooBot-News,FooBot")
    assert (same.code, same.err) == (1, "")
    assert "  agent      FooBot-News,FooBot (from --agent)" in same.lines
    other = check(path, url, "--agent", "barbot")
    assert other.code == 0
    assert "  agent      barbot (from --agent)" in other.lines
    assert other.err == (
        "scrapy robots check: the archived crawl was made for foobot-news,foobot and not for"
        " barbot, so its decisions may differ\n"
    )


def test_as_it_was_at_a_time(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last result before a time decides, in whichever file of the archive it is.

    The report has this time, and a time in whole seconds is the end of that second.
    """
    reports = {"ROBOTS_REPORT": {path.with_name("r.jsonl"): {"allowed": True}}}
    with Site({"/robots.txt": file(FILE)}) as site:
        archive(path, site.url("/x"), **reports)
        site.replies["/robots.txt"] = Reply(404)
        monkeypatch.setattr(_runtime.Runtime, "date", lambda _: time.time() + 60)
        archive(path, site.url("/x"), **reports)
        arguments = ["--archive", SECOND, site.url("/x"), "--at"]
    first, second = (record["fetched"] for record in read(path.with_name("r.jsonl")))
    period = f"{first} to {second}"
    lacks = f"the archive contains nothing about {site.url('')} until 2020-01-01"
    for fetched, verdict in ((first, "disallowed"), (second, "allowed")):
        seconds = fetched[:19]
        for at in (fetched, f"{seconds}Z", f"{seconds.replace('T', ' ')} UTC"):
            done = check(path, *arguments, at)
            assert (done.out.split()[0], done.err) == (verdict, "")
    assert verdicts(path, *arguments, "2020-01-01") == [
        ("undecided", f"{lacks} (it covers {period})")
    ]
    later = check(path, *arguments, "2100-01-01")
    assert later.code == 0
    assert later.err == (
        f"scrapy robots check: --at 2100-01-01 is later than the archive, which covers {period}\n"
    )


@pytest.mark.parametrize(("date", "at", "verdict"), tables("command_lines")["archived"])
def test_dates_are_compared_as_times(
    path: Path, url: str, date: str, at: str, verdict: str
) -> None:
    """Time zones and fractions of seconds are taken into account."""
    octets = gzip.decompress(path.read_bytes())
    path.write_bytes(re.sub(rb"WARC-Date: \S+", f"WARC-Date: {date}".encode(), octets))
    assert verdicts(path, "--at", at, url)[0][0] == verdict


def test_what_an_archive_lacks_is_undecided(path: Path, url: str) -> None:
    """A site that is not in the archive is undecided instead of unreachable."""
    done = check(path, "https://b.example/x")
    dates = re.findall(rb"WARC-Date: (\S+)", gzip.decompress(path.read_bytes()))
    lacks = f"the archive contains nothing about https://b.example (it covers {dates[-1].decode()})"
    assert (done.code, done.out) == (2, f"undecided    https://b.example/x\n  why        {lacks}\n")
    problem = f"https://b.example/x is undecided: {lacks}; {ADVICE}"
    assert done.err == f"scrapy robots check: {problem}\n"
    other, known = check(path, "--json", "https://b.example/", url).records
    assert (other["reason"], other["robots_txt"]) == (None, None)
    assert known["robots_txt"]["digest"] == sha256(FILE.encode())


def test_a_page_was_dropped_if_its_file_was_unreachable(path: Path) -> None:
    """A page is disallowed if its robots.txt was unreachable in the crawl."""
    with Site({"/robots.txt": Reply(429)}) as site:
        archive(path, site.url("/x"))
    assert verdicts(path, site.url("/x")) == [("disallowed", "robots.txt unreachable: 429")]
    done = check(path, site.url("/x"))
    assert (done.code, done.err) == (1, "")
    assert "unreachable (429, archived " in done.out


@pytest.mark.parametrize("dry_run", [True, False])
def test_a_dry_run_is_named(path: Path, dry_run: bool) -> None:
    """The replay says whether the crawl was a dry run."""
    url = archived(path, FILE, {"ROBOTS_DRY_RUN": dry_run})
    line = "  dry run    the crawl also sent its disallowed requests"
    assert (line in check(path, url).lines) is dry_run
    assert check(path, url, "--json").records[0]["robots_txt"]["dry_run"] is dry_run


def test_a_file_that_was_unchanged(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a 304, the rules of the earlier response apply."""
    now = time.time()
    headers = (("ETag", '"a"'), ("Cache-Control", "max-age=0"))
    store = {"ROBOTS_CACHE": f"sqlite:///{path.parent / 'r.sqlite'}", "ROBOTS_CACHE_MIN_AGE": 0}
    with Site({"/robots.txt": Reply(200, FILE.encode(), headers)}) as site:
        archive(path, site.url("/x"), **store)
        site.replies["/robots.txt"] = Reply(304, headers=headers)
        monkeypatch.setattr(_runtime.Runtime, "date", lambda _: now + 60)
        archive(path, site.url("/x"), **store)
        assert [asked.headers.get("If-None-Match") for asked in site.asked] == [None, '"a"']
    rule = ("disallowed", "robots.txt line 2: Disallow: /x")
    assert verdicts(path, "--archive", SECOND, site.url("/x")) == [rule]
    assert verdicts(path.with_name(SECOND), site.url("/x")) == [MISSING]


# Declared uses.


def test_declared_uses_count(path: Path) -> None:
    """The declared uses of the crawl count, unless `--use` replaces them."""
    uses = (["search"], ["train-ai", "search"])
    url = archived(path, USES, *({"ROBOTS_USE": use} for use in uses))
    second = path.with_name(SECOND)
    refused = [("disallowed", "robots.txt line 2: refuses train-ai (Content-Usage: train-ai=n)")]
    assert verdicts(path, url)[0][0] == "allowed"
    assert verdicts(second, url) == refused
    assert verdicts(path, "--use", "train-ai", url) == refused
    assert verdicts(second, "--use", "search", url)[0][0] == "allowed"


def test_a_crawl_without_declared_uses(path: Path) -> None:
    """A crawl without declared uses is replayed without them, even if ROBOTS_USE is set now."""
    arguments = (archived(path, USES, {}), "-s", "ROBOTS_USE=train-ai")
    assert check(path, *arguments).code == 0
    assert check(path, *arguments, "--use", "train-ai").code == 1


@pytest.mark.parametrize("damaged", [True, False])
def test_uses_that_are_unknown(path: Path, damaged: bool) -> None:
    """The settings count if the record with the declared uses is missing or damaged."""
    url = archived(path, USES, {"ROBOTS_USE": ["train-ai"]})
    octets, starts = path.read_bytes(), members(path)
    info = unpacked(octets[: starts[1]]).replace(b"software", b"s\0ftware")
    path.write_bytes((gzip.compress(info) if damaged else b"") + octets[starts[1] :])
    assert check(path, url).code == 0
    assert check(path, url, "-s", "ROBOTS_USE=train-ai").code == 1


# Damage.


def test_a_file_that_was_changed(path: Path, url: str) -> None:
    """A file with another digest than the result is not used."""
    path.write_bytes(unpacked(path.read_bytes()).replace(b"Disallow: /x", b"Disallow: /z"))
    assert verdicts(path, url) == [MISSING]


@pytest.mark.parametrize("octet", [-8, -20])
def test_damage_within_a_record(path: Path, url: str, octet: int) -> None:
    """A damaged record and the records after it are ignored."""
    octets, starts = bytearray(path.read_bytes()), members(path)
    octets[starts[2] + octet] ^= 0xFF  # of the checksum of the response, or of its content
    # The result of the fetch comes first, because nothing after the damage is read.
    path.write_bytes(octets[starts[3] :] + octets)
    done = check(path, url)
    assert (done.code, done.err.count(DAMAGED)) == (2, 1)
    assert "Traceback" not in done.err


@pytest.mark.parametrize("tail", [b"", b"not a gzip member"])
def test_a_damaged_result_does_not_decide(path: Path, tail: bytes) -> None:
    """A result with a correct checksum is used, even if there is damage after it."""
    with Site({"/robots.txt": file(FILE)}) as site:
        archive(path, site.url("/x"))
        site.replies["/robots.txt"] = Reply(404)
        archive(path, site.url("/x"))
        arguments = ("--archive", SECOND, site.url("/x"))
    second = path.with_name(SECOND)
    octets = bytearray(second.read_bytes())
    second.write_bytes(octets + tail)
    done = check(path, *arguments)
    assert (done.code, done.err.count("is damaged; only the records")) == (0, bool(tail))
    octets[-8] ^= 0xFF
    second.write_bytes(octets + tail)
    done = check(path, *arguments)
    assert (done.code, done.err.count("is damaged; only the records")) == (1, 1)


@pytest.mark.parametrize("algorithm", ["base32", "hex", "other"])
def test_records_without_their_digest(path: Path, url: str, algorithm: str) -> None:
    """A record that does not match its SHA-1 digest is damaged; other digests are not checked."""
    plain = gzip.decompress(path.read_bytes())
    digest = re.findall(rb"WARC-Block-Digest: sha1:(\S+)", plain)[-1]
    named = base64.b32decode(digest).hex().encode() if algorithm == "hex" else digest
    plain = plain.replace(digest, named)
    if algorithm == "other":
        plain = plain.replace(b"sha1:" + named, b"md9:" + named)
    path.write_bytes(plain)
    done = check(path, url)
    assert (done.code, done.err) == (1, "")
    path.write_bytes(plain.replace(b"outcome: successful", b"outcome: successfuX"))
    done = check(path, url)
    assert (done.code, done.err.count(DAMAGED)) == (2, algorithm != "other")


@pytest.mark.parametrize("date", [b"WARC-Date: 2q30-01-01T00:00:00Z", b"XARC-Date: 2030-01-01"])
def test_a_record_without_a_date_is_damaged(path: Path, url: str, date: bytes) -> None:
    """A result with a missing or invalid date is ignored."""
    head, _, tail = gzip.decompress(path.read_bytes()).rpartition(b"WARC-Date: ")
    path.write_bytes(head + date + b"\r\n" + tail.partition(b"\r\n")[2])
    for at in ((), ("--at", "2100-01-01")):
        done = check(path, *at, url)
        assert (done.code, done.err.count(DAMAGED)) == (2, 1)


@pytest.mark.parametrize("packed", [True, False])
def test_an_archive_that_is_cut_off(path: Path, url: str, packed: bool) -> None:
    """The command prints one line about an incomplete file, wherever the file ends."""
    whole, (*_, start, end) = path.read_bytes(), members(path)
    if not packed:
        whole, start = gzip.decompress(whole), len(gzip.decompress(whole[:start]))
        end = len(whole) - 4  # the two line ends after a record have no meaning
    for cut in (start + 12, (start + end) // 2, end - 1):
        path.write_bytes(whole[:cut])
        complaints = [line for line in check(path, url).err.splitlines() if "damaged" in line]
        assert complaints == [f"scrapy robots check: {DAMAGED}"]
    path.write_bytes(whole)
    assert check(path, url).err == ""


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"limit: 512000", b"limit: \xc2\xb25"),
        (b"status: 200", b"status: " + b"9" * 5000),
        (b"agent: Scrapy", b"agent: " + b"(" * 100_000),
    ],
)
def test_odd_fields_are_ignored(path: Path, url: str, before: bytes, after: bytes) -> None:
    """Invalid fields of an archive are ignored."""
    rewrite_metadata(path, before, after)
    assert verdicts(path, url)[0][0] == "disallowed"


# The command line.


def test_a_pipe_cannot_be_read_twice(tmp_path: Path) -> None:
    """The command refuses to read an archive from a pipe."""
    ours, its = os.pipe()
    os.close(its)
    name = f"/dev/fd/{ours}"
    done = run("check", "--archive", name, "https://a.example/", folder=tmp_path)
    os.close(ours)
    complaint = f"{name} is not a regular file; copy the archive to a file first"
    assert (done.code, done.err) == (2, f"scrapy robots check: {complaint}\n")


def test_as_the_page_shows(proxy: Site, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command prints what docs/report.md shows, except for the time."""
    monkeypatch.chdir(path.parent)
    proxy.replies["http://example.com/robots.txt"] = file("User-agent: *\nDisallow: /private/\n")
    archive(path, "http://example.com/private/plan.html", ROBOTSTXT_USER_AGENT="foobot")
    command, _, shown = block("docs/report.md", "console", "--archive").partition("\n")
    words = command.replace("https", "http").removeprefix("$ scrapy robots ").split()
    printed = run(*words, folder=path.parent).out.replace("http:", "https:")
    archived = r"archived \S+\)"
    assert re.sub(archived, "", printed).strip() == re.sub(archived, "", shown).strip()
