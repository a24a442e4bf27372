"""`scrapy robots check --archive`.

A decision is replayed from what a crawl stored, and no site is asked.
"""

from __future__ import annotations

import base64
import gzip
import json
import os
import re
import time
import zlib
from typing import TYPE_CHECKING, Any

import pytest
from pytest_twisted import blockon
from twisted.internet.defer import Deferred

from scrapy_robots_rfc import _runtime
from tests.support.command_line import run
from tests.support.crawling import crawl
from tests.support.documents import block
from tests.support.site import Reply, Site, redirect, robots as file

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.reactor

FILE = "User-agent: *\nDisallow: /x\n"


def archive(path: Path, url: str, **settings: Any) -> None:
    """Have a crawl ask for a page, and write an archive."""
    blockon(Deferred.fromCoroutine(crawl([url], {"ROBOTS_ARCHIVE": str(path), **settings})))


def unpacked(octets: bytes) -> bytes:
    """The octets of an archive, unpacked and without the digests of its records."""
    return re.sub(rb"WARC-Block-Digest: \S+\r\n", b"", gzip.decompress(octets))


def verdicts(*arguments: str, folder: Path) -> list[tuple[str, str]]:
    """The verdict on each URL, and why."""
    records = map(json.loads, run("check", "--json", *arguments, folder=folder).out.splitlines())
    return [(record["verdict"], record["why"]) for record in records]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The first file of an archive."""
    return tmp_path / "robots.warc.gz"


def test_replayed_when_the_site_is_gone(path: Path) -> None:
    """What was decided is printed once more, with the rule, though the site is gone.

    Coded bodies too.
    """
    body = gzip.compress(FILE.encode())
    with Site(
        {"/robots.txt": redirect("/a"), "/a": Reply(200, body, (("Content-Encoding", "gzip"),))}
    ) as site:
        archive(path, site.url("/x"))
        urls = site.url("/x"), site.url("/y")
    found = verdicts("--archive", path.name, *urls, folder=path.parent)
    assert found == [
        ("disallowed", "robots.txt line 2: Disallow: /x"),
        ("allowed", "robots.txt: no rule of the group `*` matches"),
    ]
    assert run("check", "--archive", path.name, urls[0], folder=path.parent).code == 1


GROUPS = "User-agent: foobot\nDisallow: /x\n\nUser-agent: *\nAllow: /\n"


@pytest.mark.parametrize("is_recorded", [True, False], ids=["recorded", "older archive"])
def test_the_agent_of_the_crawl_decides(path: Path, is_recorded: bool) -> None:
    """A page is judged for the agent of the crawl, which is printed.

    An older archive does not name it: there it is the User-Agent of the request.
    """
    header = "Mozilla/5.0 (compatible; FooBot/2.0)"
    with Site({"/robots.txt": redirect("/a"), "/a": file(GROUPS)}) as site:
        archive(path, site.url("/x"), USER_AGENT=header)
        url = site.url("/x")
    if not is_recorded:
        rewrite_metadata(path, b"agent: FooBot\r\n", b"")
    asked = ("check", "--archive", path.name, url)
    done = run(*asked, folder=path.parent)
    agent = "FooBot" if is_recorded else header
    assert (done.code, done.err) == (1, "")
    assert done.lines[1] == "  why        robots.txt line 2: Disallow: /x"
    assert done.lines[3] == f"  agent      {agent} (from the archive)"
    record = json.loads(run(*asked, "--json", folder=path.parent).out)
    assert (record["agent"], record["tokens"], record["group"]) == (agent, ["FooBot"], "FooBot")


def test_another_agent_is_warned_of(path: Path) -> None:
    """A verdict for another agent than that of the crawl has a warning; the same agent has none."""
    with Site({"/robots.txt": file(GROUPS)}) as site:
        archive(path, site.url("/x"), ROBOTSTXT_USER_AGENT=["foobot-news", "foobot"])
        asked = ("check", "--archive", path.name, site.url("/x"), "--agent")
    same = run(*asked, "FooBot-News,FooBot", folder=path.parent)
    assert (same.code, same.err) == (1, "")
    assert "  agent      FooBot-News,FooBot (from --agent)" in same.lines
    other = run(*asked, "barbot", folder=path.parent)
    assert other.code == 0
    assert "  agent      barbot (from --agent)" in other.lines
    assert other.err == (
        "scrapy robots check: the archived crawl was made for foobot-news,foobot, not for barbot:"
        " it may have decided otherwise\n"
    )


def rewrite_metadata(path: Path, before: bytes, after: bytes) -> None:
    """Replace a part of the last metadata record of an archive, without leaving it damaged."""
    octets = unpacked(path.read_bytes())
    length = re.findall(rb"Content-Length: (\d+)", octets)[-1]
    head, _, tail = octets.rpartition(b"Content-Length: " + length)
    assert before in tail
    changed = b"Content-Length: %d" % (int(length) + len(after) - len(before))
    path.write_bytes(head + changed + tail.replace(before, after))


def test_a_web_page_in_an_archive_is_warned_of(path: Path) -> None:
    """A page that stood in the place of a robots.txt is warned of, as where the site is asked."""
    with Site({"/robots.txt": Reply(200, b"<!DOCTYPE html><title>Sorry</title>")}) as site:
        archive(path, site.url("/x"))
    url = site.url("/robots.txt")
    done = run("check", "--archive", path.name, site.url("/x"), folder=path.parent)
    assert done.code == 0
    assert done.err.startswith(
        f"scrapy robots check: {url} looks like an HTML page, not a robots.txt; "
    )


def test_as_it_was_at_a_time(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last conclusion up to a time counts, over all files of an archive."""
    now = time.time()
    with Site({"/robots.txt": file(FILE)}) as site:
        archive(path, site.url("/x"))
        site.replies["/robots.txt"] = Reply(404)
        monkeypatch.setattr(_runtime.Runtime, "date", lambda _: now + 60)
        archive(path, site.url("/x"))
        url = site.url("/x")
    files = ["--archive", path.name, "--archive", "robots-2.warc.gz"]
    first = max(re.findall(rb"WARC-Date: (\S+)", gzip.decompress(path.read_bytes()))).decode()
    assert verdicts(*files, url, folder=path.parent)[0][0] == "allowed"
    assert verdicts(*files, "--at", first, url, folder=path.parent)[0][0] == "disallowed"
    assert verdicts(*files, "--at", "2020-01-01", url, folder=path.parent) == [
        ("undecided", f"the archive has nothing about {site.url('')} at that time")
    ]


def test_what_an_archive_lacks_is_not_unreachable(path: Path) -> None:
    """Of an origin that is not in the archive nothing is known.

    It is not called unreachable.
    """
    with Site({"/robots.txt": file(FILE)}) as site:
        archive(path, site.url("/x"))
    done = run("check", "--archive", path.name, "https://b.example/x", folder=path.parent)
    lacks = "the archive has nothing about https://b.example at that time"
    assert (done.code, done.out) == (2, f"undecided    https://b.example/x\n  why        {lacks}\n")
    advice = "name all files of the archive, or another time with --at"
    assert done.err == f"scrapy robots check: https://b.example/x is undecided: {lacks}; {advice}\n"
    record = json.loads(
        run("check", "--json", "--archive", path.name, "https://b.example/", folder=path.parent).out
    )
    assert (record["reason"], record["robots_txt"]) == (None, None)


def test_outcomes_without_a_file(path: Path) -> None:
    """A file that was unreachable leaves the URL undecided, as it was."""
    with Site({"/robots.txt": Reply(503)}) as site:
        archive(path, site.url("/x"))
        url = site.url("/x")
    ((verdict, why),) = verdicts("--archive", path.name, url, folder=path.parent)
    assert verdict == "undecided"
    assert why.startswith("robots.txt unreachable: 503, archived ")
    done = run("check", "--archive", path.name, url, folder=path.parent)
    assert done.err.endswith("; name all files of the archive, or another time with --at\n")


def test_file_that_was_found_unchanged(path: Path) -> None:
    """After a 304, the rules are those of the response that had the octets."""
    headers = (("ETag", '"a"'), ("Cache-Control", "max-age=0"))
    store = {
        "ROBOTS_CACHE": f"sqlite:///{path.parent / 'robots.sqlite'}",
        "ROBOTS_CACHE_MIN_AGE": 0,
    }
    with Site({"/robots.txt": Reply(200, FILE.encode(), headers)}) as site:
        archive(path, site.url("/x"), **store)
        site.replies["/robots.txt"] = Reply(304, headers=headers)
        archive(path, site.url("/x"), **store)
        url = site.url("/x")
        assert [asked.headers.get("If-None-Match") for asked in site.asked] == [None, '"a"']
    files = ["--archive", path.name, "--archive", "robots-2.warc.gz"]
    assert verdicts(*files, url, folder=path.parent) == [
        ("disallowed", "robots.txt line 2: Disallow: /x")
    ]
    assert verdicts(*files[2:], url, folder=path.parent) == [
        ("undecided", "the archive does not have the file with this digest")
    ]


def test_octets_that_were_changed(path: Path) -> None:
    """Octets that do not have the digest decide nothing."""
    with Site({"/robots.txt": file(FILE)}) as site:
        archive(path, site.url("/x"))
        url = site.url("/x")
    path.write_bytes(unpacked(path.read_bytes()).replace(b"Disallow: /x", b"Disallow: /z"))
    ((verdict, why),) = verdicts("--archive", path.name, url, folder=path.parent)
    assert (verdict, why) == ("undecided", "the archive does not have the file with this digest")


DAMAGED = "robots.warc.gz is damaged: the records after the damage are left out"


@pytest.mark.parametrize(
    "tail", [b"\x1f\x8b\x08 no gzip member", b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff no deflate"]
)
def test_damaged_archive(path: Path, tail: bytes) -> None:
    """What stands before the damage counts, and the damage is named once, though the file is read
    twice.
    """
    with Site({"/robots.txt": file(FILE)}) as site:
        archive(path, site.url("/x"))
        url = site.url("/x")
    path.write_bytes(path.read_bytes() + tail)
    done = run("check", "--archive", path.name, url, folder=path.parent)
    assert done.code == 1
    assert done.err.count(DAMAGED) == 1


def members(path: Path) -> list[int]:
    """Where each gzip member of a file begins, and where the last one ends."""
    data, begins = path.read_bytes(), [0]
    while data:
        member = zlib.decompressobj(31)
        member.decompress(data)
        begins.append(begins[-1] + len(data) - len(member.unused_data))
        data = member.unused_data
    return begins


@pytest.mark.parametrize("octet", [-8, -20])
def test_damage_within_a_record(path: Path, octet: int) -> None:
    """Neither a damaged record counts nor what is behind it."""
    with Site({"/robots.txt": file(FILE)}) as site:
        archive(path, site.url("/x"))
        url = site.url("/x")
    octets, begins = bytearray(path.read_bytes()), members(path)
    octets[begins[2] + octet] ^= 0xFF  # of the checksum of the response, or of itself
    path.write_bytes(
        octets[begins[3] :] + octets
    )  # what follows from it comes first, as nothing behind it is read
    done = run("check", "--archive", path.name, url, folder=path.parent)
    assert done.code == 2
    assert done.err.count(DAMAGED) == 1
    assert "Traceback" not in done.err


@pytest.mark.parametrize("tail", [b"", b"no gzip member", b"\x1f\x8b\x08"])
def test_a_damaged_conclusion_does_not_decide(path: Path, tail: bytes) -> None:
    """A record counts if its own checksum is right, whatever is behind it."""
    with Site({"/robots.txt": file(FILE)}) as site:
        archive(path, site.url("/x"))
        site.replies["/robots.txt"] = Reply(404)
        archive(path, site.url("/x"))
        url = site.url("/x")
    second = path.with_name("robots-2.warc.gz")
    asked = ("check", "--archive", path.name, "--archive", second.name, url)
    octets = bytearray(second.read_bytes())
    second.write_bytes(octets + tail)
    done = run(*asked, folder=path.parent)
    assert (done.code, done.err.count("is damaged: the records")) == (0, bool(tail))
    octets[-8] ^= 0xFF
    second.write_bytes(octets + tail)
    done = run(*asked, folder=path.parent)
    assert (done.code, done.err.count("is damaged: the records")) == (1, 1)


@pytest.mark.parametrize("algorithm", ["base32", "hex", "other"])
def test_octets_without_the_digest_of_their_record(path: Path, algorithm: str) -> None:
    """A record whose octets do not have its digest is damaged; another digest is not known."""
    with Site({"/robots.txt": file(FILE)}) as site:
        archive(path, site.url("/x"))
        url = site.url("/x")
    plain = gzip.decompress(path.read_bytes())
    digest = re.findall(rb"WARC-Block-Digest: sha1:(\S+)", plain)[-1]
    named = base64.b32decode(digest).hex().encode() if algorithm == "hex" else digest
    plain = plain.replace(digest, named)
    if algorithm == "other":
        plain = plain.replace(b"sha1:" + named, b"md9:" + named)
    path.write_bytes(plain)
    asked = ("check", "--archive", path.name, url)
    done = run(*asked, folder=path.parent)
    assert (done.code, done.err) == (1, "")
    path.write_bytes(plain.replace(b"outcome: successful", b"outcome: successfuX"))
    done = run(*asked, folder=path.parent)
    assert (done.code, done.err.count(DAMAGED)) == (2, algorithm != "other")


@pytest.mark.parametrize("date", [b"WARC-Date: 2q30-01-01T00:00:00Z", b"XARC-Date: 2030-01-01"])
def test_a_record_without_a_date_is_damaged(path: Path, date: bytes) -> None:
    """A conclusion whose date is no time, or is missing, does not count; what is before it does."""
    with Site({"/robots.txt": file(FILE)}) as site:
        archive(path, site.url("/x"))
        url = site.url("/x")
    head, _, tail = gzip.decompress(path.read_bytes()).rpartition(b"WARC-Date: ")
    path.write_bytes(head + date + b"\r\n" + tail.partition(b"\r\n")[2])
    for at in ((), ("--at", "2100-01-01")):
        done = run("check", "--archive", path.name, *at, url, folder=path.parent)
        assert (done.code, done.err.count(DAMAGED)) == (2, 1)


def test_dates_are_compared_as_times(path: Path) -> None:
    """A date in another zone counts from the time on that it means."""
    with Site({"/robots.txt": file(FILE)}) as site:
        archive(path, site.url("/x"))
        url = site.url("/x")
    date = b"WARC-Date: 2030-01-01T00:30:00+01:00"
    octets = re.sub(rb"WARC-Date: \S+", date, gzip.decompress(path.read_bytes()))
    path.write_bytes(octets)
    asked = ("--archive", path.name, "--at")
    assert verdicts(*asked, "2029-12-31T23:31", url, folder=path.parent)[0][0] == "disallowed"
    assert verdicts(*asked, "2029-12-31T23:29", url, folder=path.parent)[0][0] == "undecided"


def test_a_pipe_cannot_be_read_twice(tmp_path: Path) -> None:
    """An archive that comes through a pipe is refused in one line."""
    ours, its = os.pipe()
    os.close(its)
    name = f"/dev/fd/{ours}"
    done = run("check", "--archive", name, "https://a.example/", folder=tmp_path)
    os.close(ours)
    complaint = f"{name} cannot be read twice, as a pipe cannot: name a file"
    assert (done.code, done.err) == (2, f"scrapy robots check: {complaint}\n")


@pytest.mark.parametrize("packed", [True, False])
def test_cut_off_archive(path: Path, packed: bool) -> None:
    """Where a file ends within a record, wherever that is, one line says so."""
    with Site({"/robots.txt": file(FILE)}) as site:
        archive(path, site.url("/x"))
        url = site.url("/x")
    whole, begins = path.read_bytes(), members(path)
    begin, end = begins[-2:]
    if not packed:
        whole, begin = gzip.decompress(whole), len(gzip.decompress(whole[:begin]))
        end = len(whole) - 4  # the two line ends behind a record say nothing
    for cut in (begin + 12, (begin + end) // 2, end - 1):
        path.write_bytes(whole[:cut])
        done = run("check", "--archive", path.name, url, folder=path.parent)
        lines = [
            line
            for line in done.err.splitlines()
            if "robots.warc.gz" in line and "is undecided" not in line
        ]
        assert lines == [f"scrapy robots check: {DAMAGED}"]
    path.write_bytes(whole)
    assert run("check", "--archive", path.name, url, folder=path.parent).err == ""


def test_wrong_length_of_a_record(path: Path) -> None:
    """Where a record is not followed by another one, one line says so, without octets of the
    file.
    """
    with Site({"/robots.txt": file(FILE)}) as site:
        archive(path, site.url("/x"))
        url = site.url("/x")
    path.write_bytes(
        re.sub(
            rb"Content-Length: \d+",
            b"Content-Length: 5",
            gzip.decompress(path.read_bytes()),
            count=1,
        )
    )
    done = run("check", "--archive", path.name, url, folder=path.parent)
    assert [line for line in done.err.splitlines() if "is undecided" not in line] == [
        f"scrapy robots check: {DAMAGED}"
    ]


@pytest.mark.parametrize("damaged", [True, False])
def test_uses_that_are_unknown(path: Path, damaged: bool) -> None:
    """What the crawl declared is unknown where its record is not there, or damaged."""
    with Site(
        {"/robots.txt": file("User-agent: *\nContent-Usage: train-ai=n\nAllow: /\n")}
    ) as site:
        archive(path, site.url("/x"), ROBOTS_USE=["train-ai"])
        url = site.url("/x")
    octets, begins = path.read_bytes(), members(path)
    info = unpacked(octets[: begins[1]]).replace(b"software", b"s\0ftware")
    path.write_bytes((gzip.compress(info) if damaged else b"") + octets[begins[1] :])
    asked = ("--archive", path.name, url)
    assert run("check", *asked, folder=path.parent).code == 0
    assert run("check", *asked, "-s", "ROBOTS_USE=train-ai", folder=path.parent).code == 1


def test_refused_use(path: Path) -> None:
    """A request that was refused because of its use is refused again, by what the crawl
    declared, or else `--use`.
    """
    with Site(
        {"/robots.txt": file("User-agent: *\nContent-Usage: train-ai=n\nAllow: /\n")}
    ) as site:
        archive(path, site.url("/x"), ROBOTS_USE=["train-ai", "search"])
        archive(path, site.url("/x"), ROBOTS_USE=["train-ai"])
        url = site.url("/x")
    second = ["--archive", "robots-2.warc.gz"]
    line = "robots.txt line 2: content-usage: train-ai=n"
    assert verdicts("--archive", path.name, url, folder=path.parent)[0][0] == "allowed"
    assert verdicts(*second, url, folder=path.parent) == [("disallowed", line)]
    assert verdicts("--archive", path.name, "--use", "train-ai", url, folder=path.parent) == [
        ("disallowed", line)
    ]
    assert verdicts(*second, "--use", "search", url, folder=path.parent)[0][0] == "allowed"


def test_no_declared_use_is_known_as_such(path: Path) -> None:
    """A crawl that declared no use is replayed without one, whatever the settings are now.

    `--use` still asks.
    """
    with Site(
        {"/robots.txt": file("User-agent: *\nContent-Usage: train-ai=n\nAllow: /\n")}
    ) as site:
        archive(path, site.url("/x"))
        asked = ("--archive", path.name, site.url("/x"), "-s", "ROBOTS_USE=train-ai")
    assert run("check", *asked, folder=path.parent).code == 0
    assert run("check", *asked, "--use", "train-ai", folder=path.parent).code == 1


@pytest.mark.parametrize(
    ("date", "at", "verdict"),
    [("00.000", "00.500", "disallowed"), ("00.600", "00.500", "undecided")],
)
def test_fraction_of_a_second(path: Path, date: str, at: str, verdict: str) -> None:
    """A record counts from its own time on, to the fraction of a second."""
    with Site({"/robots.txt": file(FILE)}) as site:
        archive(path, site.url("/x"))
        url = site.url("/x")
    dated = re.sub(
        rb"WARC-Date: \S+",
        f"WARC-Date: 2030-01-01T00:00:{date}Z".encode(),
        gzip.decompress(path.read_bytes()),
    )
    path.write_bytes(dated)  # a WARC file need not be packed
    (found,) = verdicts(
        "--archive", path.name, "--at", f"2030-01-01T00:00:{at}Z", url, folder=path.parent
    )
    assert found[0] == verdict


def test_a_date_that_no_calendar_has(path: Path) -> None:
    """A record whose date lies before the year 1 in UTC counts as a very early one."""
    with Site({"/robots.txt": file(FILE)}) as site:
        archive(path, site.url("/x"))
        url = site.url("/x")
    octets = gzip.decompress(path.read_bytes())
    path.write_bytes(re.sub(rb"WARC-Date: \S+", b"WARC-Date: 0001-01-01T00:00:00+23:59", octets))
    done = run("check", "--archive", path.name, url, folder=path.parent)
    assert (done.code, done.err) == (1, "")


@pytest.mark.parametrize(
    ("before", "after"),
    [(b"limit: 512000", b"limit: \xc2\xb25"), (b"status: 200", b"status: " + b"9" * 5000)],
)
def test_odd_fields(path: Path, before: bytes, after: bytes) -> None:
    """Numbers in an archive that make no sense are ignored."""
    with Site({"/robots.txt": file(FILE)}) as site:
        archive(path, site.url("/x"))
        url = site.url("/x")
    rewrite_metadata(path, before, after)
    assert verdicts("--archive", path.name, url, folder=path.parent)[0][0] == "disallowed"


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--archive", "none.warc.gz"], "none.warc.gz cannot be read: No such file or directory"),
        (
            ["--archive", "a", "--at", "noon"],
            "--at noon is not a time; write it as 2026-11-22T19:30:00Z",
        ),
        (
            ["--archive", "a", "--at", ""],
            "--at '' is not a time; write it as 2026-11-22T19:30:00Z",
        ),
        (["--at", ""], "--at needs --archive"),
        (["--at", "2020-01-01"], "--at needs --archive"),
        (["--archive", "a", "--robots", "b"], "--archive and --robots cannot be combined"),
    ],
)
def test_wrong_arguments(arguments: list[str], complaint: str, tmp_path: Path) -> None:
    """Wrong arguments end the command with one line that says what to do."""
    done = run("check", *arguments, "https://a.example/", folder=tmp_path)
    assert (done.code, done.out) == (2, "")
    assert done.err == f"scrapy robots check: {complaint}\n"


def test_as_the_page_shows(proxy: Site, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """docs/report.md shows what the command prints; only the time is another one."""
    monkeypatch.chdir(path.parent)
    proxy.replies["http://example.com/robots.txt"] = file("User-agent: *\nDisallow: /private/\n")
    archive(path, "http://example.com/private/plan.html", ROBOTSTXT_USER_AGENT="foobot")
    command, _, shown = block("docs/report.md", "console", "--archive").partition("\n")
    printed = run(
        *command.replace("https", "http").removeprefix("$ scrapy robots ").split(),
        folder=path.parent,
    ).out
    time = r"archived \S+\)"
    assert (
        re.sub(time, "", printed.replace("http:", "https:")).strip()
        == re.sub(time, "", shown).strip()
    )
