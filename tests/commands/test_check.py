"""`scrapy robots check`, with a given file and in real crawls."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from typing import TYPE_CHECKING, Any

import pytest
import scrapy

from scrapy_robots_rfc.cache.stores.sqlite import SqliteStore
from scrapy_robots_rfc.core.text import printable
from tests.support.case_files import tables
from tests.support.command_line import TIMEOUT, launch, run, start, unread
from tests.support.site import HANG, Reply, Site, redirect, robots as file

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.site import Asked

FILE = """User-agent: *
Disallow: /

User-agent: foobot
User-agent: barbot
# ours
Allow: /private/open
Disallow: /private/  # all of it
Disallow: /*.pdf$
Crawl-delay: 100
"""
SITE = "https://a.example"
SCRAPY = f"Scrapy/{scrapy.__version__} (+https://scrapy.org)"
ASYNCIO = "TWISTED_REACTOR=twisted.internet.asyncioreactor.AsyncioSelectorReactor"


@pytest.fixture
def given(tmp_path: Path) -> str:
    """Return the path of a robots.txt."""
    path = tmp_path / "robots.txt"
    path.write_text(FILE)
    return str(path)


def test_the_verdict_is_explained(given: str) -> None:
    """The output has the verdict, the reason, the group, the line that decided, and the rules that
    lost.
    """
    done = run("check", f"{SITE}/private/open/x.pdf", "--agent", "zoo,FooBot", "--robots", given)
    assert (done.code, done.err) == (0, "")
    assert done.lines == [
        "allowed      https://a.example/private/open/x.pdf",
        "  why        robots.txt line 7: Allow: /private/open",
        f"  robots.txt {given} (given)",
        "  agent      zoo,FooBot (from --agent)",
        "  group      FooBot, because no group matches zoo (lines 4-10)",
        "      5  User-agent: barbot",
        "      6  # ours",
        ">     7  Allow: /private/open",
        "      8  Disallow: /private/  # all of it",
        "      9  Disallow: /*.pdf$",
        "  lost       line 8: Disallow: /private/",
        "  lost       line 9: Disallow: /*.pdf$",
    ]


@pytest.mark.parametrize(
    ("targets", "code"),
    [
        (["/a"], 0),
        (["/a", "/x.pdf"], 1),
        (["/x.pdf", "/a"], 1),
        (["/x.pdf", "http://", "/a"], 2),
        (["http://", "/x.pdf"], 2),
    ],
)
def test_exit_code(given: str, targets: list[str], code: int) -> None:
    """The exit code is 0 if all URLs are allowed, 1 if some are disallowed, 2 if some are
    undecided.
    """
    urls = [target if "://" in target else SITE + target for target in targets]
    assert run("check", *urls, "--agent", "foobot", "--robots", given).code == code


def test_json_is_an_object_for_each_url(given: str) -> None:
    """With --json, each URL is an object on one line, without userinfo.

    A URL that is wrong has a line on stderr, too.
    """
    urls = ("https://me:pw@a.example/x.pdf", "/x")
    done = run("check", *urls, "--json", "--agent", "foobot", "--robots", given)
    assert done.code == 2
    first, second = done.records
    names = ("url", "agent", "agent_from", "verdict", "why", "reason", "group", "lost", "use")
    assert [first[name] for name in names] == [
        *("https://a.example/x.pdf", "foobot", "option", "disallowed"),
        *("robots.txt line 9: Disallow: /*.pdf$", "rule", "foobot", [], {}),
    ]
    assert first["rule"] == {"line": 9, "kind": "Disallow", "pattern": "/*.pdf$"}
    fields = ("url", "result", "status", "cause", "stale")
    assert [first["robots_txt"][name] for name in fields] == [
        *(given, "successful", None, "given", False)
    ]
    assert list(second) == list(first)
    assert (second["url"], second["verdict"], second["reason"]) == ("/x", "undecided", None)
    why = "not an absolute http, https, ftp or gemini URL; write it as SCHEME://HOST/PATH"
    assert done.err == f"scrapy robots check: /x is undecided: {why}\n"


def test_several_agents_have_a_verdict_each(given: str) -> None:
    """Each agent has its own verdict. The exit code is the highest."""
    agents = ("--agent", "zoo,FooBot", "--agent", "zoo", "--agent", "foobot", "--agent", "zoo")
    done = run("check", f"{SITE}/a", *agents, "--robots", given)
    assert (done.code, done.err) == (1, "")
    starts = ("allowed", "disallowed", "  agent")
    assert [line for line in done.lines if line.startswith(starts)] == [
        f"allowed      {SITE}/a",
        "  agent      zoo,FooBot (from --agent)",
        f"disallowed   {SITE}/a",
        "  agent      zoo (from --agent)",
        f"allowed      {SITE}/a",
        "  agent      foobot (from --agent)",
    ]
    assert done.lines.count("") == 2


def test_several_urls_and_agents_are_a_table(given: str) -> None:
    """Several URLs and several agents print a table with the verdicts and their lines."""
    agents = ("--agent", "zoo", "--agent", "FooBot/1.0")
    done = run("check", f"{SITE}/a", f"{SITE}/x.pdf", "/\x1b", *agents, "--robots", given)
    assert done.code == 2
    assert done.err.count("\n") == 1
    assert done.lines == [
        "                         zoo                  FooBot/1.0",
        "https://a.example/a      disallowed (line 2)  allowed",
        "https://a.example/x.pdf  disallowed (line 2)  disallowed (line 9)",
        "/\\x1b                    undecided            undecided",
    ]


@pytest.mark.parametrize(("rule", "target", "why"), tables("lint")["near"])
def test_rule_that_was_probably_meant(rule: str, target: str, why: str) -> None:
    """A rule that would decide otherwise, but does not match because of a mistake, is named."""
    file = f"User-agent: *\n{rule}\nAllow: /private\nDisallow: /other\n"
    done = run("check", SITE + target, "--robots", "-", stdin=file)
    assert done.code == 0
    near = [line for line in done.lines if line.startswith("  near")]
    assert near == [f"  near       line 2: {printable(rule)} does not match: {why}"]
    done = run("check", SITE + target, "--robots", "-", "--json", stdin=file)
    assert done.records[0]["near"] == [{"line": 2, "text": rule, "why": why}]
    # This rule would have decided the same.
    allow = file.replace("Disallow", "Allow").replace("Allowed", "Alloww")
    assert "near" not in run("check", SITE + target, "--robots", "-", stdin=allow).out


@pytest.mark.parametrize("name", ['"zoo"', "\u201czoo\u201d", "\u00a0Zoo"])
def test_agent_that_was_probably_meant(name: str) -> None:
    """A user-agent line with quotes is named if its rules would decide otherwise."""
    file = f"User-agent: {name}\nDisallow: /a\n"
    near = f"line 1: User-agent: {name} does not match: zoo was probably meant"
    several = (f"{SITE}/b", "--agent", "foobot")
    for options, named in ((), ""), (several, f"{SITE}/a: "):
        done = run("check", f"{SITE}/a", *options, "--agent", "zoo", "--robots", "-", stdin=file)
        found = [line for line in done.lines if "  near" in line]
        assert found == [f"  near       {named}{near}".replace("\xa0", "\\xa0")]


def test_urls_or_the_file_come_from_standard_input(given: str) -> None:
    """Standard input has the URLs, unless they are arguments, or the robots.txt."""
    urls = f"\ufeff{SITE}/a\r\n\n# no URL\r {SITE}/b\x0b/\u2028c \n"
    done = run("check", "--robots", given, stdin=urls)
    found = [line.split(maxsplit=1)[1] for line in done.lines if line.startswith("disallowed")]
    assert found == [f"{SITE}/a", f"{SITE}/b%0B/%E2%80%A8c"]
    done = run("check", "-", "--robots", given, stdin=f"{SITE}/2\n")
    assert done.lines[0] == f"disallowed   {SITE}/2"
    done = run("check", f"{SITE}/x.pdf", "--agent", "barbot", "--robots", "-", stdin=FILE)
    assert "  robots.txt standard input (given)" in done.lines


def test_bytes_that_are_not_utf8(tmp_path: Path) -> None:
    """Bytes of a URL that are not UTF-8 are percent-encoded, whatever the locale."""
    (tmp_path / "robots.txt").write_bytes(
        b"User-agent: *\nDisallow: /caf%E9\nDisallow: /na\xc3\xafve\n"
    )
    ascii_only = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    ascii_only["PYTHONIOENCODING"] = ""  # tox sets it
    urls = [SITE.encode() + path for path in (b"/caf\xe9", b"/na\xc3\xafve")]
    for named in (["-"], [*map(os.fsdecode, urls)]):
        line = ("check", *named, "--robots", "robots.txt")
        done = launch(*line, folder=tmp_path, stdin=os.fsdecode(b"\n".join(urls)), **ascii_only)
        assert (done.code, done.err) == (1, "")
        found = [line for line in done.lines if SITE in line]
        assert found == [f"disallowed   {SITE}/caf%E9", f"disallowed   {SITE}/na\\xefve"]


def test_control_characters_are_escaped() -> None:
    """Control characters in a site's text are escaped."""
    hostile = "User-agent: *\nDisallow: /\x1b[31ma\n"
    done = run("check", f"{SITE}/%1B%5B31ma\x9b", "--robots", "-", stdin=hostile)
    assert "\x1b" not in done.out
    assert "\x9b" not in done.out
    assert ">     2  Disallow: /\\x1b[31ma" in done.lines


# In real crawls.


def test_redirect_and_agent_are_named(tmp_path: Path) -> None:
    """A file is fetched once for all URLs of its site.

    The output names the redirect target, and where the agent's name came from.
    """
    with Site({"/robots.txt": redirect("/a", 301), "/a": redirect("/b"), "/b": file(FILE)}) as site:
        named = "USER_AGENT=foobot/1 (+http://b.example)"
        done = run("check", site.url("/x"), site.url("/y"), "-s", named, folder=tmp_path)
        shown = run("check", site.url("/x"), "-s", named, "--json", folder=tmp_path)
        assert (done.code, done.err) == (0, "")
        assert site.targets == ["/robots.txt", "/a", "/b"] * 2
        agents = {asked.headers["User-Agent"] for asked in site.asked}
        assert agents == {"foobot/1 (+http://b.example)"}
        [found] = shown.records
        assert found["robots_txt"]["redirected_to"] == site.url("/b")
        assert found["agent_from"] == "header"
        assert done.lines[2:6] == [
            f"  robots.txt {site.url('/robots.txt')} successful (200), so its rules apply",
            f"  redirected to {site.url('/b')}",
            "  agent      foobot/1 (+http://b.example) (from the User-Agent header)",
            "  group      foobot, named in the file (lines 4-10)",
        ]


@pytest.mark.parametrize("command", ["check", "show", "lint"])
def test_refused_redirect_is_named(tmp_path: Path, command: str) -> None:
    """A redirect that ROBOTS_REDIRECTS refuses is the reason why the site is unreachable, and the
    advice names the setting.
    """
    replies: dict[str, Any] = {
        "/robots.txt": redirect("/moved"),
        "/moved": redirect("http://localhost:1/"),
    }
    with Site(replies) as site:
        done = run(command, site.url("/x"), "-s", "ROBOTS_REDIRECTS=same-host", folder=tmp_path)
    assert done.code == 2
    assert "unreachable" in done.err
    for text in (
        "redirect to another host, refused by ROBOTS_REDIRECTS",
        "; set ROBOTS_REDIRECTS to 'any', or use a local copy",
    ):
        assert text in done.err


def test_unavailable_is_allowed_and_unreachable_undecided(tmp_path: Path) -> None:
    """Pages are allowed if their robots.txt is unavailable, and undecided if it is unreachable."""
    with (
        Site({"/robots.txt": Reply(503)}) as failing,
        Site() as without,
        Site({"/robots.txt": file(FILE)}) as open_one,
    ):
        urls = "\n".join(
            site.url(target) for target in ("/x", "/y") for site in (without, open_one, failing)
        )
        options = ("-s", "RETRY_ENABLED=False", "--agent", "foobot", "--json")
        done = run("check", "-", *options, folder=tmp_path, stdin=urls)
        assert done.code == 2
        assert [record["url"] for record in done.records] == urls.split("\n")
        reasons = [record["reason"] for record in done.records]
        assert reasons == ["unavailable", "no_rule", "unreachable"] * 2
        assert [site.fetches for site in (failing, without, open_one)] == [1, 1, 1]
        assert done.err.startswith(
            f"scrapy robots check: {failing.url('/x')} is undecided: robots.txt unreachable: 503;"
            " check whether the site is up, or use a local copy (check --robots FILE, lint FILE)\n"
        )


PROJECT = """
FEEDS = {"items.json": {"format": "json", "overwrite": True}}
JOBDIR = "job"
ROBOTS_ARCHIVE = "own.warc.gz"
ROBOTS_CACHE = "sqlite:///job/robots.sqlite"
ROBOTS_REPORT = "own.jsonl"
ROBOTSTXT_OBEY = False
ROBOTSTXT_USER_AGENT = "barbot"
TWISTED_REACTOR = "twisted.internet.selectreactor.SelectReactor"
"""


def test_in_a_project_its_settings_and_store_are_used(tmp_path: Path) -> None:
    """The project's settings and store are used; its feeds and jobs are not touched."""
    (tmp_path / "scrapy.cfg").write_text("[settings]\ndefault = mine\n")
    (tmp_path / "mine.py").write_text(PROJECT)
    (tmp_path / "items.json").write_text("mine")
    with contextlib.closing(SqliteStore(tmp_path / "job" / "robots.sqlite")) as made:
        made.open()
    with Site({"/robots.txt": file(FILE)}) as site:
        # In the process of the tests there is one reactor.
        for way, reactor in ((launch, ()), (run, ("-s", ASYNCIO))):
            done = way("check", site.url("/x.pdf"), *reactor, folder=tmp_path)
            assert (done.code, done.err) == (1, "")
            assert "  agent      barbot (from ROBOTSTXT_USER_AGENT)" in done.lines
            assert "  group      barbot, named in the file (lines 4-10)" in done.lines
        assert site.targets == ["/robots.txt"]
    assert (tmp_path / "items.json").read_text() == "mine"
    assert list(tmp_path.glob("own.*")) == []
    assert [path.name for path in (tmp_path / "job").iterdir() if "sqlite" not in path.name] == []


def test_stopped_while_it_waits_for_a_site(tmp_path: Path) -> None:
    """Ctrl-C ends the command at once, without a verdict."""
    asked = threading.Event()

    def hang(_: Asked) -> Reply:
        asked.set()
        return HANG

    with Site({"/robots.txt": hang}) as site:
        (tmp_path / "jobs").mkdir()
        jobs = f"REMOTE_CONTROL_JOBS_DIR={tmp_path / 'jobs'}"
        process = start("check", site.url("/x"), site.url("/y"), "-s", jobs, folder=tmp_path)
        assert asked.wait(TIMEOUT)
        assert [*(tmp_path / "jobs").iterdir()] == []  # it opens no port that others may come in by
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=TIMEOUT)
    assert (process.returncode, out, err) == (2, "", "scrapy robots check: stopped\n")


def test_reader_closes_the_output(given: str, tmp_path: Path) -> None:
    """If the reader closes the output early, there is no error message, but the exit code is 2."""
    done = unread("check", f"{SITE}/a", "--agent", "foobot", "--robots", given, folder=tmp_path)
    assert (done.code, done.err) == (2, "")


def test_another_parser_decides(tmp_path: Path) -> None:
    """The project's parser decides, and the reason does not name a line."""
    with Site({"/robots.txt": file(FILE)}) as site:
        parser = "ROBOTSTXT_PARSER=scrapy.robotstxt.PythonRobotParser"
        done = run("check", site.url("/x"), "-s", parser, folder=tmp_path)
    assert (done.code, done.err) == (1, "")
    assert done.lines[1:] == [
        "  why        robots.txt: ROBOTSTXT_PARSER decided",
        f"  robots.txt {site.url('/robots.txt')} successful (200), so its rules apply",
        f"  agent      {SCRAPY} (from the User-Agent header)",
    ]


def test_http_cache_is_not_used(tmp_path: Path) -> None:
    """Sites are requested even if the project replays an HTTP cache offline."""
    with Site({"/robots.txt": file("User-agent: *\nDisallow: /x\n")}) as site:
        settings = ("-s", "HTTPCACHE_ENABLED=1", "-s", "HTTPCACHE_IGNORE_MISSING=1")
        done = run("check", site.url("/x"), *settings, folder=tmp_path)
        assert (done.code, done.err, site.targets) == (1, "", ["/robots.txt"])


@pytest.mark.parametrize(
    "uses",
    [("--use", "search,ai-train", "--use", "trian-ai"), ("-s", "ROBOTS_USE=search,noai,trian-ai")],
)
def test_unknown_use(given: str, uses: tuple[str, ...]) -> None:
    """An unknown use also declares all known ones, and a warning names a similar one."""
    done = run("check", SITE, *uses, "--robots", given, "--json")
    labels = {"search", "train-ai", "trian-ai", "ai-use", "ai-input", "tdm"}
    assert {*done.records[0]["declared"]} == labels
    warning = "unknown use 'trian-ai', so it also declares all known ones; did you mean train-ai?"
    assert done.err == f"scrapy robots check: {warning}\n"


def test_visit_time_and_a_policy_token_are_explained(tmp_path: Path) -> None:
    """A note says that a Visit-time is not obeyed. A policy token decides about a use."""
    file = tmp_path / "robots.txt"
    file.write_text(
        "User-agent: *\nAllow: /\nVisit-time: 0600-0845\n\n"
        "User-agent: __usage_ai-training\nDisallow: /a\n"
    )
    done = run("check", f"{SITE}/a", "--use", "train-ai", "--robots", str(file))
    assert done.code == 1
    source = "User-agent: __usage_ai-training, Disallow: /a"
    assert f"  why        robots.txt line 6: refuses train-ai ({source})" in done.lines
    note = "line 3: Visit-time: 0600-0845 is not obeyed; start the crawl at that time"
    assert f"  note       {note}" in done.lines
