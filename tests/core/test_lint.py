"""Findings: for every code a file that earns it, what a crawler makes of the line, and what was
probably meant.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrapy_robots_rfc.core.lines import MAX_LINE, Flag
from scrapy_robots_rfc.core.lint import Code, Finding, Severity, lint
from scrapy_robots_rfc.core.robotstxt import RobotsTxt
from tests.test_reference_pages import rows

TEXT = "a plain text file; or status 404, where the site has none"
AGENT = "a line `User-agent: *` above it"
WHOLE_URL = "the whole URL, such as https://www.example/sitemap.xml"
#: The size limit of the files that are longer than it.
LIMIT = 36

OPEN = b"User-agent: *\nAllow: /\n"

USAGE = "such as Content-Usage: train-ai=n, search=y"

#: Code, file, line, a part of what a crawler makes of it, what was meant.
CASES: list[tuple[Flag | Code, bytes, int, str, str]] = [
    (Flag.MISSPELT_KEY, b"User-agent: *\nDissallow: /x", 2, "read as `Disallow`", "Disallow: /x"),
    (
        Flag.MISSPELT_KEY,
        b"Site-map: http://e.example/",
        1,
        "read as `Sitemap`",
        "Sitemap: http://e.example/",
    ),
    (Flag.NO_COLON, b"User-agent *\nDisallow: /", 1, "as if the colon were there", "User-agent: *"),
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
        "it names any crawler",
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
        "compared whole",
        "User-agent: Spider",
    ),
    (Flag.INVALID_TOKEN, b"User-agent:\nDisallow: /", 1, "it names no crawler", "User-agent: *"),
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
        "one pattern",
        "Disallow: /My%20Folder",
    ),
    (
        Flag.SPACE_IN_PATTERN,
        b"User-agent: *\nDisallow: /a /b",
        2,
        "one pattern",
        "a line for each: Disallow: /a, Disallow: /b",
    ),
    (
        Flag.CONTROL_OCTET,
        b"User-agent: *\nDisallow: /\x00x",
        2,
        "it is percent-encoded",
        "disallow: /x",
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
        "octet 16,664",
        "several shorter lines",
    ),
    (
        Flag.CUT_OFF,
        b"User-agent: *\nDisallow: /x\nDisallow: /xyzabc",
        3,
        "cuts it short",
        "a shorter file",
    ),
    (
        Flag.BYTE_ORDER_MARK,
        b"\xef\xbb\xbfUser-agent: *\nDisallow: /x",
        1,
        "passed over",
        "the file saved as UTF-8 without a byte order mark",
    ),
    (
        Flag.BYTE_ORDER_MARK,
        b"\xef\xbb\xbf# x\n",
        1,
        "passed over",
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
    (Code.NO_RECORD, b"be nice to us", 1, "it is no record", "a comment: # be nice to us"),
    (Code.NO_RECORD, b"Disallow /a /b", 1, "it is no record", "Disallow: /a /b"),
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
        "not read",
        "a shorter file",
    ),
    (
        Code.DOLLAR_INSIDE,
        b"User-agent: *\nDisallow: /*.pdf$?",
        2,
        "it stands for itself",
        "Disallow: /*.pdf$",
    ),
    (
        Code.DOLLAR_INSIDE,
        b"User-agent: *\nDisallow: /$30-SIM$",
        2,
        "it stands for itself",
        "Disallow: /%2430-SIM$",
    ),
    (
        Code.BAD_ESCAPE,
        b"User-agent: *\nDisallow: /100%_x%2F",
        2,
        "stands for itself",
        "Disallow: /100%25_x%2F",
    ),
    (
        Code.INVALID_VALUE,
        b"User-agent: *\nDisallow:\nCrawl-delay: -1",
        3,
        "ignored",
        "such as Crawl-delay: 10",
    ),
    (
        Code.INVALID_VALUE,
        b"User-agent: *\nDisallow:\nCrawl-delay: 5-10 seconds",
        3,
        "read as 10 s, the largest number in it",
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
        "leave it out",
        WHOLE_URL,
    ),
    (
        Code.AGENTS_JOINED,
        b"User-agent: a\nCrawl-delay: 1\nUser-agent: *\nDisallow: /",
        3,
        "those of line 1, too",
        "a rule above it, such as an empty `Disallow:`",
    ),
    (
        Code.AGENTS_JOINED,
        b"User-agent: a\n\nUser-agent: b\nDisallow: /",
        3,
        "those of line 1, too",
        "a rule above it, such as an empty `Disallow:`",
    ),
    (
        Code.SPLIT_GROUP,
        b"User-agent: a\nDisallow: /x\nUser-agent: A\nDisallow: /y",
        3,
        "the group of line 1",
        "one group with the rules of both",
    ),
    (
        Code.NO_RULES,
        b"User-agent: a",
        1,
        "everything is allowed",
        "an empty `Disallow:`, to say so",
    ),
    (
        Code.EMPTY_RULE,
        b"User-agent: a\nDisallow:\nDisallow: /y",
        2,
        "matches nothing",
        "nothing, or the only rule of its group",
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
        "the allow decides",
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
        "neither",
        "train-ai=y or train-ai=n",
    ),
    (
        Code.USE_NO_VALUE,
        OPEN + b"Content-Signal: ai-train=n",
        3,
        "neither",
        "train-ai=yes or train-ai=no",
    ),
    (Code.USE_UNKNOWN, OPEN + b"Content-Usage: trian-ai=n", 3, "`trian-ai`", ""),
    (
        Flag.NEVER_MATCHES,
        OPEN + b"DisallowAITraining: images/",
        3,
        "says nothing of training",
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
        "does not say where",
        "the whole URL, such as https://www.example/license.xml",
    ),
    (Code.RECORD_OUTSIDE_GROUP, b"Content-Usage: search=y\n" + OPEN, 1, "ignored", AGENT),
    (
        Code.SIGNAL_OUTSIDE_GROUP,
        b"Content-Signal: search=yes\n" + OPEN,
        1,
        "it counts for every group that does not say otherwise",
        "the same line in each group, for crawlers that do not read it here",
    ),
]


def severity(code: Flag | Code) -> Severity:
    """How bad a finding of a code is."""
    return Finding(code, 1, "", "", "").severity


def findings(body: bytes, max_size: int = RobotsTxt.MAX_SIZE) -> list[Finding]:
    """The findings of a file."""
    return lint(RobotsTxt.parse(body, max_size=max_size))


@pytest.mark.parametrize(("code", "body", "line", "effect", "meant"), CASES)
def test_finding(code: Flag | Code, body: bytes, line: int, effect: str, meant: str) -> None:
    """A line gets the finding of its code, and no other, with what a crawler makes of it and
    what was meant.
    """
    size = LIMIT if code in (Flag.CUT_OFF, Code.FILE_TOO_LONG) else RobotsTxt.MAX_SIZE
    found = findings(body, size)
    if code is Flag.CUT_OFF:  # there it is the file that is too long, too
        assert found.pop().code is Code.FILE_TOO_LONG
    [finding] = found
    assert (finding.code, finding.line, finding.meant) == (code, line, meant)
    assert effect in finding.effect


def test_every_code_is_shown() -> None:
    """Every code has a file above that earns it."""
    assert {case[0] for case in CASES} == {*Flag, *Code}


def test_every_flag_is_found() -> None:
    """Whatever the parser flags, the linter reports."""
    files = [
        RobotsTxt.parse(body, max_size=size)
        for _, body, *_ in CASES
        for size in (LIMIT, RobotsTxt.MAX_SIZE)
    ]
    told = {finding.code for file in files for finding in lint(file)}
    flagged = {flag for file in files for line in file.lines() for flag in line.flags}
    assert flagged == {*Flag}
    assert flagged <= told


def test_page() -> None:
    """docs/cli.md has a row a code: code, severity, and what it is found on."""
    expected = [[f"`{code}`", severity(code).value] for code in (*Flag, *Code)]
    assert [row[:2] for row in rows("cli.md", "code | severity")] == expected


def test_a_good_file() -> None:
    """A file that says what it means has no findings.

    Comments, empty lines, unusual but legal patterns among it.
    """
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
    """A Crawl-delay of a number with a known unit is no finding."""
    assert findings(f"User-agent: *\nDisallow:\nCrawl-delay: {value}".encode()) == []


def test_comments_among_user_agent_lines() -> None:
    """A comment sets no user-agent line apart from the one above it.

    A blank line does, also beside a comment.
    """
    assert findings(b"User-agent: a\n# and\n  # its sister\nUser-agent: b # b\nDisallow: /") == []
    [finding] = findings(b"User-agent: a\n# and\n\nUser-agent: b\nDisallow: /")
    assert (finding.code, finding.line) == (Code.AGENTS_JOINED, 4)


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"])
@pytest.mark.parametrize(
    ("text", "line", "shown"),
    [
        ("User-agent: *\r\nDisallow: /x\r\n\r\nSitemap: y\r\n", 1, "User-agent: *"),
        ("# caf\xe9\nUser-agent: *\nDisallow: /x", 1, "# caf\\xe9"),
        ("\n \n\nbe nice\n", 4, "be nice"),
    ],
)
def test_other_encodings_without_a_mark(text: str, line: int, shown: str, encoding: str) -> None:
    """That is all there is to say of such a file.

    Nobody wants to read what its octets are by themselves.
    """
    [finding] = findings(text.encode(encoding))
    assert (finding.code, finding.line, finding.text) == (Flag.OTHER_ENCODING, line, shown)
    assert finding.effect.startswith("not converted, as no byte order mark shows how")
    file = RobotsTxt.parse(text.encode(encoding))
    assert (file.groups, file.decide("/x", "foobot").allowed) == ((), True)


@pytest.mark.parametrize(
    "body",
    [b"x", b"x\0y", b"\0", b"\0\0\0\0\0", b"User\0-agent: *", b"U\0s\0e\0r\nUser-agent: *\nAllow:"],
)
def test_no_other_encoding(body: bytes) -> None:
    """A NUL here and there is none, and neither is a file with a group that is read."""
    assert Flag.OTHER_ENCODING not in {finding.code for finding in findings(body)}


def test_a_web_page_with_groups() -> None:
    """Lines of a web page that make a group are obeyed, so what is odd about them is said."""
    found = findings(b"<html>\nUser-agent: *\nDisallow: x\n")
    assert [finding.code for finding in found] == [Code.MARKUP, Code.NO_RECORD, Flag.NEVER_MATCHES]


def test_severities() -> None:
    """An error is a line that is not obeyed as it stands; what is obeyed is a warning at most."""
    assert {flag for flag in Flag if severity(flag) is Severity.ERROR} == {
        Flag.OUTSIDE_GROUP,
        Flag.NEVER_MATCHES,
        Flag.TOO_LONG,
        Flag.CUT_OFF,
    }


def test_long_lines_are_shortened() -> None:
    """What a finding repeats of the file is short, so that a report never grows as a hostile
    file wants it.
    """
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
    """Whatever a file holds, linting ends well, every finding is on a line that there is, and
    they are in order.
    """
    body = b"\n".join(lines)
    found = findings(body, size)
    last = max((line.number for line in RobotsTxt.parse(body, max_size=size).lines()), default=1)
    assert all(1 <= finding.line <= last for finding in found)
    assert [finding.line for finding in found] == sorted(finding.line for finding in found)
