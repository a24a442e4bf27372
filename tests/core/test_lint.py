"""Findings of lint: for each code a file, what a crawler does with the line, and what was probably
meant.
"""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from scrapy_robots_rfc.core.findings import Flag, lines_of
from scrapy_robots_rfc.core.lines import MAX_LINE
from scrapy_robots_rfc.core.lint import Finding, lint
from scrapy_robots_rfc.core.lint_codes import Code, Severity
from scrapy_robots_rfc.core.robotstxt import RobotsTxt
from tests.test_reference_pages import rows

TEXT = "a plain text file; or status 404, if the site has none"
AGENT = "a line `User-agent: *` above it"
WHOLE_URL = "the whole URL, such as https://www.example/sitemap.xml"
#: The size limit of the files that exceed it.
LIMIT = 36

OPEN = b"User-agent: *\nAllow: /\n"

USAGE = "such as Content-Usage: train-ai=n, search=y"

#: Code, file, line, a part of the effect, and what was meant.
CASES: list[tuple[Flag | Code, bytes, int, str, str]] = [
    (Flag.MISSPELT_KEY, b"User-agent: *\nDissallow: /x", 2, "read as `Disallow`", "Disallow: /x"),
    (
        Flag.MISSPELT_KEY,
        b"Site-map: http://e.example/",
        1,
        "read as `Sitemap`",
        "Sitemap: http://e.example/",
    ),
    (Flag.NO_COLON, b"User-agent *\nDisallow: /", 1, "as if it had a colon", "User-agent: *"),
    (Flag.UNKNOWN_KEY, b"Owner: me", 1, "ignored", ""),
    (Flag.OUTSIDE_GROUP, b"Allow: /x\nUser-agent: *\nDisallow:", 1, "ignored", AGENT),
    (
        Flag.INVALID_TOKEN,
        b"User-agent: FooBot/2.1\nDisallow: /",
        1,
        "the crawler `FooBot`",
        "User-agent: FooBot",
    ),
    (
        Flag.INVALID_TOKEN,
        b"User-agent: * all\nDisallow: /",
        1,
        "it names every crawler",
        "User-agent: *",
    ),
    (
        Flag.INVALID_TOKEN,
        b"User-agent: Mozilla/4.0 (compatible; BullsEye; Windows 95)\nDisallow: /",
        1,
        "the crawler `Mozilla`",
        "User-agent: BullsEye",
    ),
    (
        Flag.INVALID_TOKEN,
        b"User-agent: 360Spider\nDisallow: /",
        1,
        "only crawlers that compare whole names read `360Spider`",
        "the product token of the crawler",
    ),
    (
        Flag.INVALID_TOKEN,
        b"User-agent: MJ12bot/v1\nDisallow: /",
        1,
        "it names the crawlers `MJ12bot` and `MJ`",
        "User-agent: MJ",
    ),
    (
        Flag.INVALID_TOKEN,
        b"User-agent:\nDisallow: /",
        1,
        "it names no crawler",
        "User-agent: *, or the name of a crawler",
    ),
    (Flag.NEVER_MATCHES, b"User-agent: *\nDisallow: x", 2, "it matches no URL", "Disallow: /x"),
    (
        Flag.NEVER_MATCHES,
        b"User-agent: *\nAllow: https://e.example/x?y",
        2,
        "it matches no URL",
        "Allow: /x?y",
    ),
    (
        Flag.SPACE_IN_PATTERN,
        b"User-agent: *\nDisallow: /My Folder",
        2,
        "part of the pattern",
        "`%20` in its place; or two lines, if these are two patterns",
    ),
    (
        Flag.CONTROL_OCTET,
        b"User-agent: *\nDisallow: /\x00x",
        2,
        "percent-encoded",
        "the line without the control character",
    ),
    (
        Flag.NOT_UTF8,
        b"User-agent: *\nDisallow: /caf\xe9",
        2,
        "one by one",
        "the file saved as UTF-8",
    ),
    (
        Flag.TOO_LONG,
        b"User-agent: *\nDisallow: /" + b"x" * MAX_LINE,
        2,
        "byte 16,664",
        "several shorter lines",
    ),
    (
        Flag.BYTE_ORDER_MARK,
        b"\xef\xbb\xbfUser-agent: *\nDisallow: /x",
        1,
        "skipped",
        "the file saved as UTF-8 without a byte order mark",
    ),
    (
        Flag.BYTE_ORDER_MARK,
        b"\xef\xbb\xbf# x\n",
        1,
        "skipped",
        "the file saved as UTF-8 without a byte order mark",
    ),
    (
        Flag.OTHER_ENCODING,
        "Host: e.example\n".encode("utf-16"),
        1,
        "converted",
        "the file saved as UTF-8",
    ),
    (
        Code.ALMOST_A_KEY,
        b"User-agent: *\nDisallowed: /x\nAllow: /y",
        2,
        "not read as `Disallow`",
        "Disallow: /x",
    ),
    (Code.ALMOST_A_KEY, b"Crawl_delay: 3", 1, "not read as `Crawl-delay`", "Crawl-delay: 3"),
    (Code.NO_RECORD, b"be nice to us", 1, "it is not a record", "a comment: # be nice to us"),
    (Code.NO_RECORD, b"Disallow /a /b", 1, "it is not a record", "Disallow: /a /b"),
    (
        Code.MARKUP,
        b"\n<!DOCTYPE html>\n<p>x: y",
        2,
        "a web page",
        TEXT,
    ),
    (
        Code.FILE_TOO_LONG,
        b"User-agent: *\nDisallow: /aaaaaaaaaaa\nAllow: /\n",
        2,
        "are ignored",
        "a shorter file",
    ),
    (
        Code.DOLLAR_INSIDE,
        b"User-agent: *\nDisallow: /*.pdf$?",
        2,
        "an ordinary character",
        "`%24` in its place, or nothing after it",
    ),
    (
        Code.INVALID_VALUE,
        b"User-agent: *\nDisallow:\nCrawl-delay: -1",
        3,
        "ignored: it is negative",
        "such as Crawl-delay: 10",
    ),
    (
        Code.INVALID_VALUE,
        b"User-agent: *\nDisallow:\nCrawl-delay: 5-10 seconds",
        3,
        "the largest number in it counts",
        "such as Crawl-delay: 10",
    ),
    (
        Code.INVALID_VALUE,
        b"User-agent: *\nDisallow:\nRequest-rate: 5",
        3,
        "ignored",
        "such as Request-rate: 1/5",
    ),
    (
        Code.RECORD_OUTSIDE_GROUP,
        b"Crawl-delay: 5\nUser-agent: *\nDisallow:",
        1,
        "no group",
        AGENT,
    ),
    (
        Code.RELATIVE_URL,
        b"Sitemap: /s.xml",
        1,
        "many others ignore it",
        WHOLE_URL,
    ),
    (
        Code.AGENTS_JOINED,
        b"User-agent: a\nCrawl-delay: 1\nUser-agent: *\nDisallow: /",
        3,
        "apply to line 1, too",
        "a rule above it, such as an empty `Disallow:`",
    ),
    (
        Code.AGENTS_JOINED,
        b"User-agent: a\n\nUser-agent: b\nDisallow: /",
        3,
        "apply to line 1, too",
        "a rule above it, such as an empty `Disallow:`",
    ),
    (
        Code.SPLIT_GROUP,
        b"User-agent: a\nDisallow: /x\nUser-agent: A\nDisallow: /x",
        3,
        "the group of line 1",
        "one group",
    ),
    (
        Code.NO_RULES,
        b"User-agent: a",
        1,
        "everything is allowed",
        "an empty `Disallow:`, to say so",
    ),
    (
        Code.REPEATED_RULE,
        b"User-agent: a\nDisallow: /y\nDisallow: /y",
        3,
        "line 2 says the same",
        "",
    ),
    (
        Code.CONTRADICTION,
        b"User-agent: a\nDisallow: /y\nAllow: /y",
        3,
        "Allow wins",
        "one of them",
    ),
    (Code.USE_VOID, OPEN + b"Content-Usage: train-ai=n search=y", 3, "void", USAGE),
    (Code.USE_VOID, OPEN + b"Content-Usage: Train-AI=n", 3, "void", USAGE),
    (Code.USE_VOID, OPEN + b"Content-Usage: /my files train-ai=n", 3, "void", USAGE),
    (Code.USE_VOID, OPEN + b"Content-Usage:", 3, "not clear what it permits", USAGE),
    (
        Code.USE_NO_VALUE,
        OPEN + b"Content-Usage: train-ai=yes",
        3,
        "neither permits nor refuses",
        "train-ai=y or train-ai=n",
    ),
    (
        Code.USE_NO_VALUE,
        OPEN + b"Content-Signal: ai-train=n",
        3,
        "neither permits nor refuses",
        "train-ai=yes or train-ai=no",
    ),
    (Code.USE_UNKNOWN, OPEN + b"Content-Usage: trian-ai=n", 3, "`trian-ai`", ""),
    (
        Flag.NEVER_MATCHES,
        OPEN + b"DisallowAITraining: images/",
        3,
        "it matches no URL",
        "DisallowAITraining: /images/",
    ),
    (
        Flag.NEVER_MATCHES,
        OPEN + b"allowaitraining: https://e.example/x",
        3,
        "matches no URL",
        "AllowAITraining: /x",
    ),
    (
        Code.RELATIVE_URL,
        b"License: /license.xml\n" + OPEN,
        1,
        "many others ignore it",
        "the whole URL, such as https://www.example/license.xml",
    ),
    (Code.RECORD_OUTSIDE_GROUP, b"Content-Usage: search=y\n" + OPEN, 1, "ignored", AGENT),
    (
        Code.SIGNAL_OUTSIDE_GROUP,
        b"Content-Signal: search=yes\n" + OPEN,
        1,
        "it counts for every group that does not say otherwise",
        "the same line in each group, for crawlers that ignore it here",
    ),
    (
        Flag.NEVER_MATCHES,
        b"User-agent: *\nDisallow: ^/private/.*$",
        2,
        "matches no URL",
        "Disallow: /private/",
    ),
    (
        Flag.NEVER_MATCHES,
        b"User-agent: *\nDisallow: ./tmp",
        2,
        "matches no URL",
        "Disallow: /tmp",
    ),
    (
        Flag.NEVER_MATCHES,
        b"User-agent: *\nDisallow: \\admin\\",
        2,
        "matches no URL",
        "Disallow: /admin/",
    ),
    (
        Flag.INVALID_TOKEN,
        b"User-agent: *<br>\nDisallow: /",
        1,
        "it names no crawler",
        "User-agent: *",
    ),
    (
        Code.INVALID_VALUE,
        b"User-agent: *\nDisallow:\nCrawl-delay: ten",
        3,
        "it has no number",
        "such as Crawl-delay: 10",
    ),
    (
        Code.NOT_OBEYED,
        b"User-agent: *\nDisallow:\nNoindex: /x",
        3,
        "no crawler is known to obey it",
        "a robots meta or X-Robots-Tag with `noindex` on pages that are allowed",
    ),
    (
        Code.NOT_OBEYED,
        b"User-agent: *\nDisallow:\nVisit-time: 0600-0845",
        3,
        "this crawler does not obey it",
        "",
    ),
    (
        Code.CUT_BY_COMMENT,
        b"User-agent: *\nDisallow: /a#b",
        2,
        "the pattern is `/a`",
        "`%23` in its place, or a space before the comment",
    ),
    (
        Code.DELAYS_DIFFER,
        b"User-agent: *\nDisallow:\nCrawl-delay: 5\nCrawl-delay: 10",
        4,
        "line 3 has another delay",
        "one of them",
    ),
    (
        Code.DECIMAL_COMMA,
        b"User-agent: *\nDisallow:\nCrawl-delay: 1,5",
        3,
        "read as 1.5 s",
        "Crawl-delay: 1.5",
    ),
    (
        Code.REGULAR_EXPRESSION,
        b"User-agent: *\nDisallow: /foo/.*",
        2,
        "only `*` and a last `$` are special",
        "Disallow: /foo/",
    ),
    (
        Code.REGULAR_EXPRESSION,
        b"User-agent: *\nDisallow: /foo/.*\\.pdf$",
        2,
        "only `*` and a last `$` are special",
        "Disallow: /foo/*.pdf$",
    ),
    (
        Code.REGULAR_EXPRESSION,
        b"User-agent: *\nDisallow: /x[0-9]",
        2,
        "not a regular expression",
        "Disallow: the paths as prefixes, or `*` for any characters",
    ),
    (
        Flag.NEVER_MATCHES,
        b"User-agent: *\nDisallow: ?print",
        2,
        "matches no URL",
        "Disallow: /*?print",
    ),
    (
        Code.INVALID_ESCAPE,
        b"User-agent: *\nDisallow: /a%zz",
        2,
        "is a literal",
        "`%25` in its place",
    ),
    (
        Code.TWO_URLS,
        b"Sitemap: https://e.example/a.xml https://e.example/b.xml",
        1,
        "read as one URL",
        "a line for each URL",
    ),
    (
        Code.TWO_URLS,
        b"Sitemap: /a.xml, https://e.example/b.xml",
        1,
        "read as one URL",
        "a line for each URL",
    ),
    (
        Code.NAMED_TWICE,
        b"User-agent: a\nDisallow: /x\nUser-agent: A\nDisallow: /y",
        3,
        "the rules of line 1 both apply",
        "one group with the rules of both",
    ),
    (
        Code.POLICY_GROUP,
        b"User-agent: __usage_ai-training\nDisallow: /x",
        1,
        "which pages may be used for `train-ai`",
        "",
    ),
    (
        Code.RECORD_OUTSIDE_GROUP,
        b"Crawl-delay: 3\nUser-agent: *\nDisallow:",
        1,
        "ignored by this crawler, Protego and urllib.robotparser",
        "a line `User-agent: *` above it",
    ),
]


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


def test_every_flag_is_found() -> None:
    """Each flag of the parser is reported."""
    files = [
        RobotsTxt.parse(body, max_size=size)
        for _, body, *_ in CASES
        for size in (LIMIT, RobotsTxt.MAX_SIZE)
    ]
    found = {finding.code for file in files for finding in lint(file)}
    flagged = {flag for file in files for line in lines_of(file) for flag in line.flags}
    assert flagged == {*Flag}
    assert flagged <= found


def test_page() -> None:
    """docs/cli.md has a row for each code, with its severity."""
    expected = [[f"`{code}`", severity(code).value] for code in (*Flag, *Code)]
    assert [row[:2] for row in rows("cli.md", "code | severity")] == expected


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


@pytest.mark.parametrize(
    "value", ["10", "0.5", "0", "10 min.", "1 hour.", "2 weeks", "500ms", "inf"]
)
def test_delays_that_are_understood(value: str) -> None:
    """A Crawl-delay with a known unit has no finding."""
    assert findings(f"User-agent: *\nDisallow:\nCrawl-delay: {value}".encode()) == []


def test_comments_among_user_agent_lines() -> None:
    """A comment does not separate user-agent lines, but an empty line does."""
    assert findings(b"User-agent: a\n# and\n  # its sister\nUser-agent: b # b\nDisallow: /") == []
    [finding] = findings(b"User-agent: a\n# and\n\nUser-agent: b\nDisallow: /")
    assert (finding.code, finding.line) == (Code.AGENTS_JOINED, 4)


def test_a_web_page_with_groups() -> None:
    """A web page that contains a group is reported, and so are its rules."""
    found = findings(b"<html>\nUser-agent: *\nDisallow: x\n")
    assert [finding.code for finding in found] == [Code.MARKUP, Flag.NEVER_MATCHES]
    assert "the 1 rule in it" in found[0].effect


def test_names_that_differ_after_a_digit() -> None:
    """Two names with the same token are reported, because many crawlers read them as one."""
    found = findings(b"User-agent: bot1\nAllow: /\nUser-agent: bot2\nDisallow: /")
    codes = [(finding.code, finding.line) for finding in found]
    assert codes == [(Flag.INVALID_TOKEN, 1), (Flag.INVALID_TOKEN, 3), (Code.SAME_TOKEN, 3)]
    assert found[-1].effect.startswith("read as `bot` by many crawlers, as line 1 is")


@pytest.mark.parametrize(
    "pattern",
    ["/index.*", "/*.*", "/a[b]=c", "/(x)", "/a.b", "/a+b", "/a # .*", "/a%2Fb", "/x?a[0]=.*"],
)
def test_patterns_that_are_not_regular_expressions(pattern: str) -> None:
    """Ordinary characters of URLs do not look like a regular expression."""
    assert findings(f"User-agent: *\nDisallow: {pattern}".encode()) == []


def test_severities() -> None:
    """Only a line that is not obeyed is an error."""
    assert {flag for flag in Flag if severity(flag) is Severity.ERROR} == {
        Flag.OUTSIDE_GROUP,
        Flag.NEVER_MATCHES,
        Flag.TOO_LONG,
    }


def test_long_lines_are_shortened() -> None:
    """Findings are short, even in a hostile file."""
    [finding] = findings(b"User-agent: *\nDisallow: x" + b"y" * 10_000)
    assert len(finding.text) < 130
    assert len(finding.meant) < 130


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
