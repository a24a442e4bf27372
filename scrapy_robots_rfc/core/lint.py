"""The linter: what is odd about the lines of a robots.txt, and what was probably meant.

It asks `findings.py` for the lines and groups, which are those of the parser. `docs/cli.md` says
what each code is found on.
"""

import difflib
import enum
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, pairwise
from string import ascii_letters

from scrapy_robots_rfc.core.agents import ANY, names_in_line, product_tokens
from scrapy_robots_rfc.core.extensions import parse_rate, parse_window, plain_delay
from scrapy_robots_rfc.core.findings import Flag, Group, Line, groups_of, lines_of
from scrapy_robots_rfc.core.lines import KNOWN_RECORDS, MAX_LINE, RULES, LineKind, Record, as_text
from scrapy_robots_rfc.core.percent import to_octets
from scrapy_robots_rfc.core.preferences import LABELS, RECORDS, SIGNAL, USAGE, read_records
from scrapy_robots_rfc.core.robotstxt import RobotsTxt
from scrapy_robots_rfc.core.text import short


class Severity(enum.Enum):
    """How bad a finding is. The values are those of GitHub's annotations."""

    #: The line has no effect.
    ERROR = "error"
    #: The line has an effect, but perhaps not on every crawler, or not the one that was meant. What
    #: no crawler reads may be one, or a notice.
    WARNING = "warning"
    #: The line has the effect that was meant, and could say so more clearly.
    NOTICE = "notice"


class Code(enum.StrEnum):
    """What is found beside the flags of a line. The values are stable: all outputs have them."""

    # What the value of a line shows, or its place in the file.
    ALMOST_A_KEY = enum.auto()
    NO_RECORD = enum.auto()
    MARKUP = enum.auto()
    FILE_TOO_LONG = enum.auto()
    DOLLAR_INSIDE = enum.auto()
    INVALID_VALUE = enum.auto()
    RECORD_OUTSIDE_GROUP = enum.auto()
    RELATIVE_URL = enum.auto()
    # What the group of a line shows.
    AGENTS_JOINED = enum.auto()
    SPLIT_GROUP = enum.auto()
    NO_RULES = enum.auto()
    REPEATED_RULE = enum.auto()
    CONTRADICTION = enum.auto()
    # What records about the use of pages show, see `preferences.py`.
    USE_VOID = enum.auto()
    USE_NO_VALUE = enum.auto()
    USE_UNKNOWN = enum.auto()
    SIGNAL_OUTSIDE_GROUP = enum.auto()


_AGENT_ABOVE = "a line `User-agent: *` above it"
_AS_UTF8 = "the file saved as UTF-8"
_OUTSIDE = "ignored: it belongs to no group, as no user-agent line stands above it"

#: By severity: what a crawler makes of a line with a code, and what was meant. In braces stand the
#: usual spelling of its key, its value, and other words that the check gives.
_TEXTS: dict[Severity, dict[Flag | Code, tuple[str, str]]] = {
    Severity.ERROR: {
        Flag.OUTSIDE_GROUP: (f"{_OUTSIDE} (RFC 9309, 2.2.2)", _AGENT_ABOVE),
        Flag.NEVER_MATCHES: (
            "it matches no URL: what it is compared with begins with `/` (RFC 9309, 2.2.2)",
            "{key}: {path}",
        ),
        Flag.TOO_LONG: (f"what follows octet {MAX_LINE:,} is not read", "several shorter lines"),
        Code.ALMOST_A_KEY: (
            "ignored: it is not read as `{similar}`, for keys are compared whole (RFC 9309, 2.2)",
            "{similar}: {value}",
        ),
        Code.MARKUP: (
            "a web page, it seems: without a group in it, everything is allowed",
            "a plain text file; or status 404, where the site has none",
        ),
        Code.FILE_TOO_LONG: (
            "the lines below it are not read: they are beyond the size limit (RFC 9309, 2.5)",
            "a shorter file",
        ),
        Code.RECORD_OUTSIDE_GROUP: (_OUTSIDE, _AGENT_ABOVE),
        Code.USE_VOID: (
            "void as a whole: it is not clear what it permits (RFC 9651)",
            "such as Content-Usage: train-ai=n, search=y",
        ),
    },
    Severity.WARNING: {
        Flag.MISSPELT_KEY: (
            "read as `{key}`, by this crawler and many; others leave the line out",
            "{key}: {value}",
        ),
        Flag.NO_COLON: (
            "read as if the colon were there, by this crawler and some; others leave the line out",
            "{key}: {value}",
        ),
        Flag.INVALID_TOKEN: ("{effect}", "{meant}"),
        Flag.SPACE_IN_PATTERN: (
            "part of the one pattern, percent-encoded",
            "`%20` in its place; or a line for each, if it stands between two patterns",
        ),
        Flag.CONTROL_OCTET: (
            "in a value, it is percent-encoded; a key that contains one is unknown",
            "the line without it",
        ),
        Flag.NOT_UTF8: ("its octets are percent-encoded one by one", _AS_UTF8),
        Flag.OTHER_ENCODING: (
            "converted, by this crawler; others find no record, and allow all (RFC 9309, 2.3)",
            _AS_UTF8,
        ),
        Code.NO_RECORD: ("ignored: it is no record", "{meant}"),
        Code.DOLLAR_INSIDE: (
            "it stands for itself: only a last `$` is the end of a URL (RFC 9309, 2.2.3)",
            "`%24` in its place, or nothing behind it",
        ),
        Code.INVALID_VALUE: ("{effect}", "such as {example}"),
        Code.RELATIVE_URL: (
            "crawlers that do not take it as relative to the robots.txt leave it out",
            "the whole URL, such as https://www.example/{name}.xml",
        ),
        Code.AGENTS_JOINED: (
            "it ends no group: rules below it are those of line {above}, too (RFC 9309, 2.1)",
            "a rule above it, such as an empty `Disallow:`",
        ),
        Code.CONTRADICTION: (
            "of it and line {above} the allow decides: they are equally specific (RFC 9309, 2.2.2)",
            "one of them",
        ),
        Code.USE_NO_VALUE: (
            "`{label}` is neither permitted nor refused by it",
            "{label}={yes} or {label}={no}",
        ),
        Code.SIGNAL_OUTSIDE_GROUP: (
            "it counts for every group that does not say otherwise",
            "the same line in each group, for crawlers that do not read it here",
        ),
    },
    Severity.NOTICE: {
        Flag.UNKNOWN_KEY: ("ignored: no crawler is known to read such a record", ""),
        Flag.BYTE_ORDER_MARK: (
            "passed over, by this crawler and most; others take it for a part of the key",
            f"{_AS_UTF8} without a byte order mark",
        ),
        Code.SPLIT_GROUP: (
            "combined with the group of line {above} (RFC 9309, 2.2.1); others read only one",
            "one group with the rules of both",
        ),
        Code.NO_RULES: (
            "without a rule, everything is allowed (RFC 9309, 2.2.2)",
            "an empty `Disallow:`, to say so",
        ),
        Code.REPEATED_RULE: ("it changes nothing: line {above} says the same", ""),
        Code.USE_UNKNOWN: (
            "read, as any label; no crawler is known to ask for `{label}`",
            "",
        ),
    },
}
_SEVERITY = {code: severity for severity, texts in _TEXTS.items() for code in texts}

#: Characters of the longest key that is compared with the known ones.
_LONGEST_KEY = 24
_KEYS_TO_MEAN = tuple(sorted({"user-agent", "allow", "disallow", *KNOWN_RECORDS}))
#: The keys whose usual spelling is another one than with a capital letter.
_USUAL_KEYS = {
    "site-map": "Sitemap",
    "disallowaitraining": "DisallowAITraining",
    "allowaitraining": "AllowAITraining",
}
_UNCLEAR = "ignored: it is not clear what it asks for"
#: What reads the value of a record that a crawl obeys, the effect of a record that it cannot read,
#: and an example.
_VALUES: dict[str, tuple[Callable[[str], object], str, str]] = {
    "crawl-delay": (
        plain_delay,
        "its unit is unknown: the largest number in it counts, in seconds, but no negative one",
        "Crawl-delay: 10",
    ),
    "request-rate": (parse_rate, _UNCLEAR, "Request-rate: 1/5"),
    "visit-time": (parse_window, _UNCLEAR, "Visit-time: 0600-0845"),
}
_TOKEN = re.compile("[A-Za-z_-]+")
_TOKENS_HAVE = "product tokens have only letters, `-` and `_`"
_ABSOLUTE_URL = re.compile("https?://[^/?#]", re.IGNORECASE).match
_SITE = re.compile(r"\A[A-Za-z]+://[^/]*/*")


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding about a line. A site wrote parts of it: escape them for a terminal.

    :param code: what was found.
    :param line: the number of the line, from 1.
    :param text: the line as it is read, without comment; shortened.
    :param effect: what a crawler makes of it, according to RFC 9309 and this package.
    :param meant: what was probably meant, or what helps; empty where neither is known.
    """

    code: Flag | Code
    line: int
    text: str
    effect: str
    meant: str

    @property
    def severity(self) -> Severity:
        """How bad it is."""
        return _SEVERITY[self.code]


def lint(robots: RobotsTxt) -> list[Finding]:
    """Return the findings on a file, by line. Never raises."""
    lines = list(lines_of(robots))
    groups = groups_of(robots)
    found = list[Finding]()
    if robots.is_page:  # its lines are not worth a finding each
        first = next(line for line in lines if line.kind is not LineKind.BLANK)
        found.append(_finding(Code.MARKUP, first))
    else:
        for line in lines:
            found += _of_line(line)
        for line in lines[: groups[0].line - 1] if groups else lines:
            found += _outside(line)
        named: dict[tuple[str, str], int] = {}
        for group in groups:
            found += _of_group(group, lines, named)
    if robots.content.truncated:
        last = lines[-1] if lines else Line(1, LineKind.BLANK, "", "")
        found.append(_finding(Code.FILE_TOO_LONG, last))
    return sorted(found, key=lambda finding: finding.line)


def _finding(code: Flag | Code, line: Line, **words: object) -> Finding:
    effect, meant = _TEXTS[_SEVERITY[code]][code]
    # A line is shown as it is read, which is with its key in lower case.
    colon = "" if Flag.NO_COLON in line.flags else ":"
    text = f"{line.key}{colon} {line.value}".rstrip() if line.key else line.value
    key: str = line.key if line.kind is LineKind.RECORD else line.kind.value
    words = {"key": _USUAL_KEYS.get(key, key.capitalize()), "value": line.value, **words}
    meant = meant.format(**words)
    return Finding(code, line.number, short(text), effect.format(**words), short(meant))


def _of_line(line: Line) -> Iterator[Finding]:
    for flag in sorted(line.flags):
        similar = _similar_key(line.key) if flag is Flag.UNKNOWN_KEY else None
        if similar is not None:
            yield _finding(Code.ALMOST_A_KEY, line, similar=similar)
        elif flag is Flag.INVALID_TOKEN:
            effect, meant = _of_token(line.value)
            yield _finding(flag, line, effect=effect, meant=meant)
        else:
            # Where a pattern or a URL without its slash stands, that path was probably meant.
            yield _finding(flag, line, path=f"/{_SITE.sub('', line.value)}")
    if line.kind is LineKind.JUNK:
        rest = line.value.lstrip(f"{ascii_letters}-")
        similar = _similar_key(line.value.removesuffix(rest).lower())
        meant = f"{similar}: {rest.lstrip()}" if similar else f"a comment: # {line.value}"
        yield _finding(Code.NO_RECORD, line, meant=meant)
    elif line.kind in RULES and "$" in line.value[:-1]:
        yield _finding(Code.DOLLAR_INSIDE, line)
    elif line.key in (USAGE, SIGNAL):
        yield from _of_use(line)
    elif line.key in _VALUES:
        parse, effect, example = _VALUES[line.key]
        if parse(line.value) is None:
            yield _finding(Code.INVALID_VALUE, line, effect=effect, example=example)
    elif line.key in ("sitemap", "site-map", "license") and not _ABSOLUTE_URL(line.value):
        yield _finding(Code.RELATIVE_URL, line, name=line.key.replace("-", ""))


@lru_cache(maxsize=1024)
def _similar_key(key: str) -> str | None:
    if len(key) > _LONGEST_KEY:
        return None
    plain = key.replace("_", "-").replace(" ", "-")
    close = difflib.get_close_matches(plain, _KEYS_TO_MEAN, n=1, cutoff=0.8)
    return close[0].capitalize() if close else None


def _of_token(value: str) -> tuple[str, str]:
    """Return the effect of a name that is not a product token, and the line that was meant."""
    octets = to_octets(value)
    token, name = names_in_line(octets)
    if token == ANY:
        return "it names any crawler", f"User-agent: {ANY}"
    runs = _TOKEN.findall(value)
    if not token and not value[:1].isalnum():
        effect = f"it names no crawler: {_TOKENS_HAVE}"
        return effect, f"User-agent: {max(runs, key=len)}" if runs else "a product token, or `*`"
    shown = as_text(octets[: len(name)])
    if not token:
        effect = f"only crawlers that compare whole names read `{shown}`: {_TOKENS_HAVE}"
        return effect, "the product token of the crawler"
    if name != token:
        effect = f"it names the crawlers `{shown}` and `{runs[0]}`: {_TOKENS_HAVE}"
        return effect, f"User-agent: {runs[0]}"
    # Of a whole User-Agent header, the crawler's own name may come later.
    header_names = product_tokens(short(value))
    meant = header_names[0] if header_names else runs[0]
    return f"it names the crawler `{runs[0]}`", f"User-agent: {meant}"


def _of_use(line: Line) -> Iterator[Finding]:
    """Yield the findings on a Content-Usage or a Content-Signal."""
    read = read_records([Record(line.key, to_octets(line.value), line.number)])
    stated = (one.labels.items() for one in chain.from_iterable(read.values()))
    found = list(chain.from_iterable(stated))
    if line.key == USAGE and not found:
        yield _finding(Code.USE_VOID, line)
    yes, no = ("y", "n") if line.key == USAGE else ("yes", "no")
    for label, preference in found:
        if preference.allowed is not None and label not in LABELS:
            yield _finding(Code.USE_UNKNOWN, line, label=label)
        elif preference.allowed is None and (line.key, label) != (SIGNAL, "use"):
            # `use` of a Content-Signal has other values.
            yield _finding(Code.USE_NO_VALUE, line, label=label, yes=yes, no=no)


def _outside(line: Line) -> Iterator[Finding]:
    """Yield the finding on a record above the first group."""
    if line.key == SIGNAL:
        yield _finding(Code.SIGNAL_OUTSIDE_GROUP, line)
    elif line.key in _VALUES or line.key in RECORDS:
        yield _finding(Code.RECORD_OUTSIDE_GROUP, line)


def _of_group(
    group: Group, lines: Sequence[Line], named: dict[tuple[str, str], int]
) -> Iterator[Finding]:
    """Yield the findings on a group.

    :param lines: those of the file.
    :param named: the line of the first group of each token; the group's own are added.
    """
    own = lines[group.line - 1 : group.last]
    agents = [line for line in own if line.kind is LineKind.USER_AGENT]
    for above, line in pairwise(agents):
        between = lines[above.number : line.number - 1]
        if any(one.kind in (LineKind.BLANK, LineKind.RECORD) for one in between):
            yield _finding(Code.AGENTS_JOINED, line, above=above.number)
    tokens = dict.fromkeys(names_in_line(to_octets(line.value)) for line in agents)
    earlier = next((named[token] for token in tokens if token in named), None)
    if earlier is not None:
        yield _finding(Code.SPLIT_GROUP, agents[0], above=earlier)
    elif not group.rules:
        yield _finding(Code.NO_RULES, agents[0])
    named.update({token: group.line for token in tokens if token not in named})
    first: dict[str, Line] = {}
    for line in own:
        if line.kind in RULES and line.value:
            other = first.setdefault(line.value, line)
            if line.kind is not other.kind:
                yield _finding(Code.CONTRADICTION, line, above=other.number)
            elif line is not other:
                yield _finding(Code.REPEATED_RULE, line, above=other.number)
