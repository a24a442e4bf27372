"""Where `scrapy robots` takes files from, by URL or by name, how far it reads them, and where its crawl keeps some."""

from __future__ import annotations

import json
import os
import threading
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.command_line import run
from tests.support.site import HANG, Reply, Site, redirect
from tests.support.site import robots as file

if TYPE_CHECKING:
    from pathlib import Path

FILE = "User-agent: foobot\nDisallow: /*.pdf$\n\nUser-agent: *\nDisallow: /\n"
SITE = "https://a.example"


def test_a_file_is_fetched_from_a_url(tmp_path: Path) -> None:
    """A robots.txt that is not in its place yet decides about any site's pages; one that is not there is an error."""
    with Site({"/moved": redirect("/new.txt"), "/new.txt": file(FILE), "/none": Reply(404)}) as site:
        done = run("check", f"{SITE}/x", "--robots", site.url("/moved"), "--json", folder=tmp_path)
        assert (done.code, site.targets) == (1, ["/moved", "/new.txt"])
        shown = json.loads(done.out)["robots_txt"]
        hop = {"url": site.url("/moved"), "status": 302, "target": site.url("/new.txt")}
        assert (shown["url"], shown["redirects"]) == (site.url("/moved"), [hop])
        done = run("check", f"{SITE}/x", "--robots", site.url("/none"), folder=tmp_path)
        assert (done.code, done.out) == (2, "")
        assert done.err == (
            f"scrapy robots check: {site.url('/none')} cannot be fetched: its server answers 404; check the address, "
            "see what its server sends, or name a copy of the file\n"
        )


@pytest.mark.parametrize(
    ("replies", "because"),
    [
        ({"/r.txt": HANG}, "no answer in 0.5 s"),
        ({"/r.txt": redirect("/r.txt")}, "redirect loop"),
        ({"/r.txt": redirect("file:///etc/passwd")}, "302 without a usable Location"),
        ({"/r.txt": Reply(429)}, "its server answers 429"),
    ],
)
def test_a_url_that_has_no_file_is_one_line(replies: dict[str, Any], because: str, tmp_path: Path) -> None:
    """A file by URL is fetched as those of sites are, in the same time; where there is none, one line says why."""
    with Site(replies) as site:
        limit = ("-s", "ROBOTS_TIMEOUT=0.5") if because.startswith("no answer") else ()
        done = run("lint", site.url("/r.txt"), *limit, folder=tmp_path)
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert f"/r.txt cannot be fetched: {because}; check the address" in done.err.replace("Download", "")


@pytest.mark.parametrize("topic", ["lint {}", "check http://a.example/ --robots {}"])
def test_a_file_that_cannot_be_decoded_is_one_line(topic: str, tmp_path: Path) -> None:
    """What is wrong with a file that is there is said as a crawl says it."""
    (tmp_path / "robots.txt").write_text(FILE)
    replies: dict[str, Any] = {
        "/gzip": Reply(200, b"no gzip", (("Content-Encoding", "gzip"),)),
        "/odd": Reply(200, b"x", (("Content-Encoding", "odd"),)),
    }
    says = {"/gzip": "Error -3 while decompressing data: ", "/odd": "unknown content coding 'odd'"}
    with Site(replies) as site:
        for path, because in says.items():
            done = run(*topic.format(site.url(path)).split(), "-s", "RETRY_ENABLED=False", folder=tmp_path)
            assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
            assert f"{site.url(path)} cannot be fetched: {because}" in done.err
            assert done.err.endswith(", see what its server sends, or name a copy of the file\n")


def test_an_endless_answer_is_cut_off(tmp_path: Path) -> None:
    """A file that never ends counts as far as any file does."""
    with Site({"/r.txt": Reply(body=FILE.encode(), endless=True)}) as site:
        done = run("check", f"{SITE}/x.pdf", "--agent", "foobot", "--robots", site.url("/r.txt"), folder=tmp_path)
    assert (done.code, done.err) == (1, "")


def long(size: int) -> str:
    """A file of that size, most of which is comments."""
    comment = "#" * 999 + "\n"
    return f"{(FILE + comment * (size // 1000))[: size - 1]}\n"


@pytest.mark.parametrize("source", ["-", "/dev/fd/{}"])
@pytest.mark.parametrize(
    ("arguments", "says", "code"),
    [
        (("check", f"{SITE}/x.pdf", "--agent", "foobot", "--robots"), "disallowed   https://a.example/x.pdf", 1),
        (("lint",), "1 error", 3),
    ],
    ids=lambda value: str(value[0]) if isinstance(value, tuple) else "",
)
def test_an_endless_file_is_cut_off(
    arguments: tuple[str, ...], says: str, code: int, source: str, tmp_path: Path
) -> None:
    """Of a local file, and of standard input, no more is read than counts and the octet that is too much."""
    (tmp_path / "short.txt").write_text(FILE)
    ours, its = os.pipe()
    with os.fdopen(ours) as stdin, os.fdopen(its, "wb", 0) as given:  # open until the command has ended
        writer = threading.Thread(target=given.write, args=(long(512_000).encode() + b"\n",))
        writer.start()
        done = run(*arguments, source.format(ours), folder=tmp_path, stdin=stdin.fileno())
        writer.join()
    assert (done.code, done.err) == (code, "")
    assert says in done.out


@pytest.mark.parametrize("size", [600_000, 10**30])
def test_the_limit_is_that_of_the_settings(size: int, tmp_path: Path) -> None:
    """The limit is ROBOTS_MAX_SIZE, however much that is: a shorter file takes no more room than it needs."""
    (tmp_path / "long.txt").write_text(long(550_000))
    done = run("lint", "long.txt", "-s", f"ROBOTS_MAX_SIZE={size}", folder=tmp_path)
    assert (done.code, done.out) == (0, "long.txt: nothing found\n")


def test_no_job_directory_is_made(tmp_path: Path) -> None:
    """The store of a job is asked if it is there, and not made if it is not."""
    with Site({"/robots.txt": file(FILE)}) as site:
        asked = ("check", site.url("/x.pdf"), "--agent", "foobot", "-s", "JOBDIR=job")
        assert run(*asked, folder=tmp_path).code == 1
    assert not (tmp_path / "job").exists()


HTML = "<!DOCTYPE html>\n<title>a shop</title>\n"


@pytest.mark.parametrize("path", ["", "/", "/#top"])
def test_the_url_of_a_site_means_its_robots_txt(path: str, tmp_path: Path) -> None:
    """Wherever a file by URL is taken, that of a site means its robots.txt; userinfo is sent for it, too."""
    (tmp_path / "robots.txt").write_text(FILE)
    with Site({"/": Reply(200, HTML.encode()), "/robots.txt": file(FILE)}) as site:
        url, shown = site.url(path).replace("://", "://me:secret@"), site.url("/robots.txt")
        checked = run("check", f"{SITE}/x", "--robots", url, "--json", folder=tmp_path)
        linted = run("lint", url, folder=tmp_path)
        asked = [(each.target, "Authorization" in each.headers) for each in site.asked]
    assert asked == [("/robots.txt", True)] * 2
    assert (checked.code, json.loads(checked.out)["robots_txt"]["url"]) == (1, shown)
    assert (linted.code, linted.out) == (0, f"{shown}: nothing found\n")
    assert [done.err for done in (checked, linted)] == [""] * 2


def test_a_web_page_is_warned_of(tmp_path: Path) -> None:
    """A page in the place of a robots.txt is no silent leave for everything; the exit codes are those of the file."""
    (tmp_path / "page").write_text(HTML)
    with Site({"/page": Reply(200, HTML.encode())}) as site:
        url, shown = site.url("/page").replace("://", "://me:secret@"), site.url("/page")
        for name, called, again in (("page", "page", "page"), (url, shown, shown), ("-", "standard input", "-")):
            text = f"{called} looks like an HTML page, no robots.txt: see scrapy robots lint {again}\n"
            done = run("check", f"{SITE}/x", f"{SITE}/y", "--robots", name, folder=tmp_path, stdin=HTML)
            assert (done.code, done.err) == (0, f"scrapy robots check: {text}")


@pytest.mark.parametrize(
    ("octets", "what"), [(HTML.encode(), "an HTML page"), (b"\x7fELF\x00\x01\x00", "a binary file")]
)
def test_what_a_site_serves_is_warned_of(octets: bytes, what: str, tmp_path: Path) -> None:
    """A page or a binary file that a site serves as its robots.txt is warned of, too."""
    with Site({"/robots.txt": Reply(200, octets)}) as site:
        done = run("check", site.url("/x"), folder=tmp_path)
        again = f"see scrapy robots lint {site.url('/robots.txt')}"
    assert done.code == 0
    assert done.err == f"scrapy robots check: {site.url('/robots.txt')} looks like {what}, no robots.txt: {again}\n"


def test_many_pages_are_warned_of_in_few_lines(tmp_path: Path) -> None:
    """Of many sites that serve pages as robots.txt, the first ten have a line each."""
    with ExitStack() as stack:
        sites = [stack.enter_context(Site({"/robots.txt": Reply(200, HTML.encode())})) for _ in range(12)]
        done = run("check", *(site.url("/x") for site in sites), folder=tmp_path)
    assert done.code == 0
    assert len(done.err.splitlines()) == 11
    assert done.err.endswith("scrapy robots check: and 2 more of this kind\n")
