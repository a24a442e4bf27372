"""Findings of lint: for each code a file, what a crawler does with the line, and what was probably
meant.
"""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from scrapy_robots_rfc.core.explanation import Flag, lines_of
from scrapy_robots_rfc.core.lines import MAX_LINE
from scrapy_robots_rfc.core.lint import lint
from scrapy_robots_rfc.core.lint_codes import Code, Severity
from scrapy_robots_rfc.core.lint_findings import Finding
from scrapy_robots_rfc.core.robotstxt import RobotsTxt
from tests.support.case_files import tables
from tests.support.documents import rows

#: The size limit of the files that are longer than it.
LIMIT = 36

TABLES = tables("lint")
#: Code, file, line, a part of the effect, what was meant.
CASES: list[tuple[Flag | Code, bytes, int, str, str]] = [
    (Flag(code) if code in {*Flag} else Code(code), body.encode("latin-1"), line, effect, meant)
    for code, body, line, effect, meant in TABLES["case"]
]
CASES.append((
    Flag.TOO_LONG,
    b"User-agent: *\nDisallow: /" + b"x" * MAX_LINE,
    2,
    "byte 16,664",
    "",
))  # fmt: skip


def severity(code: Flag | Code) -> Severity:
    """Return the severity of a code."""
    return Finding(code, 1, "", "", "").severity


def findings(body: bytes, max_size: int = RobotsTxt.MAX_SIZE) -> list[Finding]:
    """Return the findings of a file."""
    return lint(RobotsTxt.parse(body, max_size=max_size))


@pytest.mark.parametrize(("code", "body", "line", "effect", "meant"), CASES)
def test_finding(code: Flag | Code, body: bytes, line: int, effect: str, meant: str) -> None:
    """A line has exactly one finding, with its effect and what was probably meant."""
    size = LIMIT if code is Code.FILE_TOO_LONG else RobotsTxt.MAX_SIZE
    [finding] = findings(body, size)
    assert (finding.code, finding.line, finding.meant) == (code, line, meant)
    assert effect in finding.effect


def test_every_code_is_shown() -> None:
    """Each code has an example above."""
    assert {case[0] for case in CASES} == {*Flag, *Code} - {Code.SAME_TOKEN}


def test_page() -> None:
    """docs/cli.md has a row for each code, with its severity."""
    expected = [[f"`{code}`", severity(code).value] for code in (*Flag, *Code)]
    assert [row[:2] for row in rows("docs/cli.md", "code | severity")] == expected


def test_a_good_file() -> None:
    """A correct file has no findings, even with comments, empty lines and unusual patterns."""
    body = b"""\
# hello
User-agent: Foo
User-agent: Bar_Bot
Crawl-delay: 2
Disallow: /*.pdf$
Disallow: /%7Eme/caf\xc3\xa9
Allow: *?x=$

User-agent: *
Disallow:

Sitemap: https://e.example/sitemap.xml
Host: e.example
"""
    assert findings(body) == []
    assert findings(b"") == []


def test_comments_among_user_agent_lines() -> None:
    """A comment does not separate user-agent lines."""
    assert findings(b"User-agent: a\n# and\n  # its sister\nUser-agent: b # b\nDisallow: /") == []


def test_a_web_page_with_groups() -> None:
    """A web page that contains a group is reported, and so are its rules."""
    found = findings(b"<html>\nUser-agent: *\nDisallow: x\n")
    assert [finding.code for finding in found] == [Code.MARKUP, Flag.NEVER_MATCHES]
    assert "the 1 rule in it" in found[0].effect


def test_names_that_differ_after_a_digit() -> None:
    """Two names with the same token are reported, because many crawlers read them as one."""
    found = findings(b"User-agent: x\nUser-agent: bot1\nAllow: /\nUser-agent: bot2\nDisallow: /")
    codes = [(finding.code, finding.line) for finding in found]
    assert codes == [(Flag.INVALID_TOKEN, 2), (Flag.INVALID_TOKEN, 4), (Code.SAME_TOKEN, 4)]
    assert found[-1].effect.startswith("many crawlers read this and line 2 as `bot`")
    assert {finding.meant for finding in found} == {""}


def test_a_line_that_names_nobody_beside_another() -> None:
    """The rules apply to the other crawler of the group."""
    [finding] = findings(b"User-agent: foobot\nUser-agent:\nDisallow: /")
    assert (finding.code, finding.line) == (Code.NAMES_NOBODY, 2)
    assert finding.effect == "it matches no crawler"


@pytest.mark.parametrize(
    "values",
    [
        "Disallow: /index.* /*.* /a[b]=c /(x) /a.b /a+b /a%2Fb /x?a[0]=.* /it's //cdn/x /wiki/«x»",
        "Crawl-delay: 10 0.5 0",
    ],
)
def test_values_without_findings(values: str) -> None:
    """Ordinary characters of URLs do not look like a mistake, and neither do numbers."""
    key, *values_of_key = values.split()
    for value in values_of_key:
        assert findings(f"User-agent: *\nAllow: /y\n{key} {value} # .*".encode()) == []


@pytest.mark.parametrize("rules", TABLES["useful"])
def test_rules_that_have_an_effect(rules: str) -> None:
    """A rule is only useless if no other rule can decide between it and a shorter one."""
    codes = {finding.code for finding in findings(f"User-agent: a\n{rules}".encode())}
    assert Code.USELESS_RULE not in codes


LETTERS = st.text("ab*$/", max_size=4).map(lambda text: f"/{text}")
RULES = st.lists(st.tuples(st.sampled_from(["Allow", "Disallow"]), LETTERS), max_size=7)


@given(RULES, st.lists(st.text("ab/", max_size=6), min_size=5, max_size=20))
def test_useless_rules_decide_nothing(rules: list[tuple[str, str]], paths: list[str]) -> None:
    """Without the rules that are useless or repeated, every decision is the same."""
    lines = ["User-agent: a", *(f"{kind}: {pattern}" for kind, pattern in rules)]
    body = "\n".join(lines).encode()
    useless = {Code.USELESS_RULE, Code.REPEATED_RULE}
    for finding in findings(body):
        if finding.code in useless:
            lines[finding.line - 1] = ""
    with_all, without = RobotsTxt.parse(body), RobotsTxt.parse("\n".join(lines).encode())
    for path in paths:
        url = f"https://e.example/{path}"
        assert with_all.decide(url, "a").allowed == without.decide(url, "a").allowed


@pytest.mark.parametrize(("body", "marked"), TABLES["place"])
def test_place(body: str, marked: list[str]) -> None:
    """A finding has the line as written, and the columns of the part that it is about."""
    found = findings(body.encode())
    lines = body.lstrip("\ufeff").split("\n")
    assert [finding.text for finding in found] == [lines[finding.line - 1] for finding in found]
    places = [finding.text[finding.column - 1 : finding.end_column - 1] for finding in found]
    assert sorted(set(places)) == sorted(marked)


def test_long_lines_are_shortened() -> None:
    """Findings are short, even in a hostile file."""
    [finding] = findings(b"User-agent: *\nDisallow: x" + b"y" * 10_000)
    assert len(finding.text) < 130
    assert len(finding.meant) < 130


@pytest.mark.parametrize("line", TABLES["invalid_bytes"])
def test_invalid_bytes_are_not_suggested(line: str) -> None:
    """A value with a byte that is not UTF-8 has no suggestion, because it is shown as an escape."""
    found = findings(b"User-agent: *\nDisallow:\n" + line.encode("latin-1"))
    assert {finding.meant for finding in found} <= {"", "the file saved as UTF-8"}


PIECES = {line for _, body, *_ in CASES for line in body.split(b"\n") if len(line) < 100} | {
    b"",
    b"<p>",
    b"%",
    b":",
}
LINES = st.sampled_from(sorted(PIECES))


@given(st.lists(LINES | st.binary(max_size=30), max_size=12), st.integers(1, 100))
def test_any_file(lines: list[bytes], size: int) -> None:
    """Any file can be checked; findings have existing lines, and are in order."""
    body = b"\n".join(lines)
    found = findings(body, size)
    last = max((line.number for line in lines_of(RobotsTxt.parse(body, max_size=size))), default=1)
    assert all(1 <= finding.line <= last for finding in found)
    assert [finding.line for finding in found] == sorted(finding.line for finding in found)
