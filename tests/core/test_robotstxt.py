"""Parts of a file other than verdicts: groups, records, sitemaps, delays."""

from __future__ import annotations

import pytest

from scrapy_robots_rfc.core.decision import Decision, Reason, Rule, RuleKind
from scrapy_robots_rfc.core.explanation import Group, groups_of, records_of
from scrapy_robots_rfc.core.lines import Record
from scrapy_robots_rfc.core.robotstxt import RobotsTxt
from tests.support.memory import traced

BODY = b"""\
Sitemap: https://e.example/one.xml
User-agent: Foo
Crawl-delay: 2
User-agent: Bar/1.0
Disallow: /x
Allow: /x/y
Crawl-delay: 5s

User-agent: *
Request-rate: 1/5
Request-rate: 1/20
Visit-time: 0600-0845
Host: e.example
Disallow:
Clean-param: a
site-map: https://e.example/two.xml
User-agent: foo
Disallow: /z
"""


@pytest.fixture(name="robots")
def fixture_robots() -> RobotsTxt:
    """A file with all kinds of lines."""
    return RobotsTxt.parse(BODY)


def test_groups_as_written(robots: RobotsTxt) -> None:
    """Groups are as in the file; only a user-agent line after a rule ends one."""
    first, second, third = groups_of(robots)
    assert first == Group(
        tokens=("Foo", "Bar/1.0"),
        rules=(Rule(RuleKind.DISALLOW, "/x", 5), Rule(RuleKind.ALLOW, "/x/y", 6)),
        line=2,
        last=7,
    )
    assert (second.tokens, second.line, second.last) == (("*",), 9, 16)
    assert (third.tokens, third.rules) == (("foo",), (Rule(RuleKind.DISALLOW, "/z", 18),))


def test_records_of_the_whole_file(robots: RobotsTxt) -> None:
    """Other records have their line numbers, also before the first group."""
    assert records_of(robots)[0] == Record("sitemap", "https://e.example/one.xml", 1)
    assert [record.line for record in records_of(robots)] == [1, 3, 7, 10, 11, 12, 13, 15, 16]
    assert robots.sitemaps == ("https://e.example/one.xml", "https://e.example/two.xml")


def test_records_for_a_crawler(robots: RobotsTxt) -> None:
    """A crawler gets the records of its own group, up to a number of lines."""
    keys = ("request-rate", "visit-time")
    assert list(robots.records_for("foo", keys)) == []
    values = [record.value for record in robots.records_for("other", keys)]
    assert values == ["1/5", "1/20", "0600-0845"]
    assert [record.value for record in robots.records_for("other", keys, 2)] == values[:2]
    assert list(robots.records_for("other", ["noindex"])) == []


def test_decision_names_rule_and_token(robots: RobotsTxt) -> None:
    """A decision has the rule as written, its line, and the token of its group."""
    expected = Decision(False, Reason.RULE, Rule(RuleKind.DISALLOW, "/x", 5), "foo")
    assert robots.decide("https://e.example/x/z", ("None", "foo")) == expected
    assert robots.decide("https://e.example/a", "Other").reason is Reason.NO_RULE
    assert RobotsTxt.parse(b"").decide("/x", "Foo") == Decision(True, Reason.NO_GROUP)


def test_many_spellings_do_not_make_it_grow() -> None:
    """For very many spellings of a token, verdicts are right and memory is bounded."""
    group = b"User-agent: foobarbaz\nDisallow: /x\nContent-Signal: search=no\n"
    for _ in range(2):  # the first time, caches of the process are filled
        robots, sizes = RobotsTxt.parse(group + b"User-agent: *\nAllow: /"), []
        with traced() as allocated:
            for number in range(360):
                name = "".join(
                    c.upper() if number >> at & 1 else c for at, c in enumerate("foobarbaz")
                )
                decision = robots.decide("/x", name)
                assert (decision.allowed, decision.token) == (False, name)
                assert robots.preferences("/", name)
                if number % 60 == 59:
                    sizes.append(allocated())
    assert max(sizes[1:]) <= 1.1 * sizes[0]


def test_control_characters_do_not_reach_a_log_line() -> None:
    """A rule is printed without control characters."""
    (group,) = groups_of(RobotsTxt.parse(b"User-agent: *\nDisallow: /\x1b[31m\xc2\x85x"))
    assert str(group.rules[0]) == "Disallow: /\\x1b[31m\\x85x"


@pytest.mark.parametrize(
    ("lines", "line"),
    [
        (["Disallow: /x/", "Disallow: /"], 3),
        (["Allow: /y", "Disallow:/", "Disallow: /"], 3),
        (["Sitemap: /", "disallow: /", "Disallow:/"], 3),
        (["DISALLOW: /", "Disallow: /"], 2),
        (["Disallow: /x/", "Disallow: / # all", "Disallow: /"], 3),
        (["Disallow: /x/", "disallow:/", "DISALLOW: /", "Disallow: /"], 3),
    ],
)
def test_a_plain_rule_has_the_number_of_its_first_line(lines: list[str], line: int) -> None:
    """If a rule is repeated, the first line is named."""
    robots = RobotsTxt.parse("\n".join(["User-agent: *", *lines, ""]).encode())
    assert robots.decide("/a", "*").rule == Rule(RuleKind.DISALLOW, "/", line)


@pytest.mark.parametrize(
    ("body", "page"),
    [
        (b"\r\n \t<!DOCTYPE html>", True),
        (b"\xef\xbb\xbf<?xml version='1.0'?>", True),
        (b"<html>\nUser-agent: *\n", False),
        (b"# <html>\n", False),
        (b"", False),
    ],
)
def test_a_page_begins_with_markup_and_has_no_group(body: bytes, page: bool) -> None:
    """A file that begins as HTML or XML, and has no group, is a web page."""
    assert RobotsTxt(body).is_page is page
