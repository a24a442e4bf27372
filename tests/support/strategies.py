"""Hypothesis strategies for files, patterns, URLs and tokens that are nearly valid.

The alphabet is small, so that rules often match URLs.
"""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import strategies as st

from scrapy_robots_rfc.core.decision import RuleKind

TOKENS = ["FooBot", "foobot-news", "FooBot2", "foobot3", "360Spider", "Other"]
LINE_ENDS = [b"\n", b"\r", b"\r\n"]

_PIECES = ["/", "/", "a", "b", "ab", "index", "?", "&", "=", "+", ";", ":", ".", "-", "~"]
_ESCAPES = ["%2F", "%2f", "%3F", "%26", "%3D", "%2B", "%3B", "%3a", "%61", "%2A", "%24", "%25"]
_ESCAPES += ["%E3%83%84", "%C3%A9"]
_ODD = ["%", "%4", "%zz", "é", "ツ", "\x85", "\u2028"]

#: Path patterns; most begin with a slash.
patterns = st.builds(
    lambda first, rest: first + "".join(rest),
    st.sampled_from(["/", "/", "/", "/a", "*", ""]),
    st.lists(
        st.sampled_from([*_PIECES, *_ESCAPES, *_ODD, "*", "*", "*", "*", "$", " "]), max_size=4
    ),
).map(lambda text: text.strip(" "))

#: Paths with a query, from the first slash on, without a fragment.
targets = st.lists(
    st.sampled_from([*_PIECES, *_ESCAPES, *_ODD, "*", "$", "[", " "]), max_size=8
).map(lambda pieces: "/" + "".join(pieces))

_ESCAPED = {"é": "%C3%A9", "a": "%61", "/": "%2F", "?": "%3F", "&": "%26"}
_SPELLINGS = {**_ESCAPED, "%C3%A9": "é", "%2F": "/"}


@st.composite
def rivals(draw: st.DrawFn) -> tuple[list[str], str]:
    """Patterns of which nearly all match one target, in other spellings and with wildcards."""
    pieces = draw(st.lists(st.sampled_from(["é", *_SPELLINGS]), min_size=1, max_size=4))

    def pattern() -> str:
        first = pieces[: draw(st.integers(0, len(pieces)))]
        spelt = [
            draw(st.sampled_from([piece, _SPELLINGS[piece], "*", piece + "*"])) for piece in first
        ]
        return "/" + "".join(spelt) + draw(st.sampled_from(["", "", "$", "**"]))

    return [pattern() for _ in range(draw(st.integers(2, 6)))], "/" + "".join(pieces)


#: Absolute URLs.
urls = st.builds(
    lambda authority, target, fragment: f"https://{authority}{target}{fragment}",
    st.sampled_from(["e.example", "user:pass@e.example:8443", "[2001:db8::1]"]),
    st.one_of(
        targets, st.just("/robots.txt"), targets.map(lambda target: "?" + target), st.just("")
    ),
    st.sampled_from(["", "", "#", "#/a?b"]),
)

#: Anything that may be passed as a URL.
any_urls = st.one_of(
    urls,
    st.text(max_size=30),
    st.text(st.characters(categories=["Cs", "Cc", "Lu"]), max_size=10),
    st.binary(max_size=30),
    urls.map(lambda url: url.encode("utf-8")),
    st.sampled_from(["", "//", "://", "http://", "http:///", "a", "?", "#", "%", "http://["]),
    st.sampled_from(["\ud800", "/\udcff"]),
)

#: Lists of product tokens in order of preference.
token_lists = st.lists(st.sampled_from([*TOKENS, "FooBot", "FOOBOT", "nobody", "*"]), max_size=3)


@dataclass(frozen=True, slots=True)
class RuleText:
    """A rule of a file."""

    kind: RuleKind
    pattern: str

    def __str__(self) -> str:
        return f"{self.kind.value}: {self.pattern}"


@dataclass(frozen=True, slots=True)
class GroupText:
    """A group of a file: user-agent values and at least one rule."""

    agents: tuple[str, ...]
    rules: tuple[RuleText, ...]

    def __str__(self) -> str:
        return "\n".join(
            [*(f"User-agent: {agent}" for agent in self.agents), *map(str, self.rules)]
        )


rules = st.builds(RuleText, st.sampled_from(RuleKind), patterns)
_agents = st.sampled_from([*TOKENS, "*", "*", "*", "FOOBOT", "FooBot/2.1", "FooBot", "* x"])
#: Groups that do not merge with the next one, because each has a rule.
groups = st.builds(
    GroupText,
    st.lists(_agents, min_size=1, max_size=3).map(tuple),
    st.lists(rules, min_size=1, max_size=6).map(tuple),
)


def body_of(*parts: object) -> bytes:
    """Return a file of groups, rules or lines."""
    return "".join(f"{part}\n" for part in parts).encode("utf-8")


def body_for(one_group: list[RuleText]) -> bytes:
    """Return a file with one group, for all crawlers."""
    return body_of("User-agent: *", *one_group)


_indents = st.sampled_from([""] * 12 + [" ", "\t", "\x0b"])
_separators = st.sampled_from([": "] * 16 + [":", " : ", "\t:\t", " ", "", ": #", " # "])
_ends = st.sampled_from([""] * 8 + [" ", "\t", "# x", " # user-agent: *"])


def _lines_of(keys: list[str], values: st.SearchStrategy[str]) -> st.SearchStrategy[bytes]:
    """Return a strategy for lines with one of the keys, most of them well-formed."""
    line = st.tuples(_indents, st.sampled_from(keys), _separators, values, _ends)
    return line.map(lambda parts: "".join(parts).encode("utf-8"))


_agent_lines = _lines_of(["User-agent", "user-agent", "user agent", "Useragent"], _agents)
_rule_lines = _lines_of(
    ["Disallow", "Disallow", "Disallow", "Allow", "allow", "disalow"],
    st.one_of(patterns, st.sampled_from(["/", "/a", "/b", "/*?", "/*b", "*/", "/$"])),
)
_other_lines = _lines_of(
    ["Sitemap", "Crawl-delay", "X-Agent", "", "Disallow", "Allow", "User-agent"],
    st.sampled_from(["", "1", "0.5", "/x y", "FooBot # x", "a:b", "FooBot *", "/"]),
)
_NASTY = [b"", b"\x00", b"\xff\xfe", b"\xe9", b"\xef\xbb\xbf", b"agent", b"\x0c"]
_NASTY += [b"# user-agent: *", b"Allow: /\xe9"]
_lines = st.one_of(
    _agent_lines,
    *[_rule_lines] * 4,
    _other_lines,
    _other_lines,
    st.sampled_from(_NASTY),
    st.binary(max_size=9),
)

#: Files that are nearly valid, with any lines and line ends.
bodies = st.builds(
    lambda mark, first, pairs, last: (
        mark + first + b"".join(line + end for line, end in pairs) + last
    ),
    st.sampled_from([b"", b"", b"", b"\xef\xbb\xbf"]),
    st.sampled_from([b"", b"User-agent: *\n", b"User-agent: FooBot\n", b"useragent *\r"]),
    st.lists(st.tuples(_lines, st.sampled_from(LINE_ENDS)), max_size=14),
    st.one_of(st.just(b""), _lines),
)

#: Files without a byte order mark of UTF-16 or UTF-32.
unmarked_bodies = bodies.filter(lambda body: body[:1] not in {b"\xef", b"\xfe", b"\xff", b"\x00"})

#: Any bytes, nearly valid or not.
any_bodies = st.one_of(
    bodies,
    st.binary(max_size=200),
    bodies.map(lambda body: b"\xff\xfe" + body),
    bodies.map(lambda body: b"\xff\xfe\x00\x00" + body),
    bodies.map(lambda body: body.decode("utf-8", "replace").encode("utf-16")),
)
