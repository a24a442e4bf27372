"""Suggest corrections for lines that `lint.py` reports."""

import difflib
import re
from collections.abc import Iterable
from functools import lru_cache

from scrapy_robots_rfc.core.agents import ANY, is_token, names_in_line, product_tokens
from scrapy_robots_rfc.core.explanation import Flag, Line
from scrapy_robots_rfc.core.lines import KEYS, KNOWN_RECORDS, MAX_LINE, LineKind, as_text
from scrapy_robots_rfc.core.percent import to_octets
from scrapy_robots_rfc.core.text import shorten

# Maximum length of a key to compare with the known keys.
_MAX_SIMILAR_KEY = 24
_KEYS_TO_SUGGEST = tuple(sorted({"user-agent", "allow", "disallow", *KNOWN_RECORDS}))
# Known key -> its usual spelling.
_SPELLINGS = {
    **{key: key.capitalize() for key in KEYS},
    "site-map": "Sitemap",
    "disallowaitraining": "DisallowAITraining",
    "allowaitraining": "AllowAITraining",
}

_ONLY_LETTERS = "product tokens only contain letters, `-` and `_`"
#: Quotes that may surround a value.
QUOTES = "\"'`\u00ab\u00bb\u2018\u2019\u201a\u201c\u201d\u201e"
#: Invisible characters: spaces other than ASCII, and marks without a width.
INVISIBLE = "\u00a0\u00ad\u061c\u1680\u180e\u3000\ufeff" + "".join(
    map(chr, (*range(0x2000, 0x2010), *range(0x2028, 0x2030), *range(0x205F, 0x2070)))
)
# Characters that may surround a value.
_ENDS = f" \t{QUOTES}{INVISIBLE}"
_BYTE = r"\\x[89a-f][0-9a-f]"
#: An invalid byte, as `as_text` shows it: `\xa0`.
find_invalid_byte = re.compile(_BYTE).search
# A key and a value with something else than a colon between them: `Disallow\u00a0/x`,
# `Sitemap = https://a.example/s.xml`. Group 2 is the text between them.
_GAP = rf"(?:[\s:\uff1a=;,>|{INVISIBLE}-]|{_BYTE})*+"
_split_record = re.compile(rf"{_GAP}([A-Za-z][A-Za-z_-]*+)({_GAP})(.*)").fullmatch
# Text that is probably a value and not prose: a single word, a list of paths, or a URL.
_is_value = re.compile(rf"\S++\Z|[{QUOTES}]*+(?:[/*]|https?://)").match
# Text between the names in a list: `, `, ` and `.
_BETWEEN_NAMES = re.compile(" ?[,;|] ?| and ", re.IGNORECASE)
_is_name = re.compile(r"\*|\w[\w.-]*+", re.ASCII).fullmatch
# Text between the patterns in a list: ` `, `, `.
_BETWEEN_PATTERNS = re.compile(r"[,;|]?\s++")
# A pattern in a list, unlike a comment or a quoted pattern: `// x`, `/* x */`, `'/x/'`.
_is_listed_pattern = re.compile(rf"/[^/*{QUOTES}][^{QUOTES}]*+").fullmatch
#: A path with a space that is certainly part of it: `/My Folder/`.
has_space_in_path = re.compile(r"/[^\s,;:]*\w \w[^\s,;:]*").fullmatch
#: A key in a value: `Disallow` in `User-agent: * Disallow: /x`.
has_key = re.compile(rf"(?:^|[\s,;])(?:{'|'.join(KEYS)})\s*:", re.IGNORECASE).search
# The text before each line in a suggestion.
_before_line = re.compile(
    rf"(?:\A(?:one line each: )?|, )(?=(?:{'|'.join(_SPELLINGS.values())}): )"
)
# A tag at an end of a value, unlike a URL in brackets: `<br>`.
_TAG_AT_END = re.compile(r"\A<[^<>:]*+>|<[^<>:]*+>\Z")

#: Text that suggests a regular expression: `^/private`, `/foo/.*`, `/a.+b`, `\.pdf`, `[0-9]`,
#: `(a|b)`.
is_regular_expression = re.compile(
    r"^\^|(?:^|[/)\]])\.[*+]|\.\+|\\[.dwsDWS/?*$]|\[\^?\w-\w|\([^()|]*\|[^()]*\)"
).search
#: Text that may be a regular expression or not: `/a.*`, `/b.*$`, `/x+`. In `/index.*`, the dot is
#: before a file extension.
may_be_regular_expression = re.compile(
    r"^[^?]*(?<!index)(?<!default)(?<=\w)\.\*\$?$|(?<=\w)\+\$?$"
).search
# An authority: `https://www.example` in `https://www.example/a`.
_SITE = re.compile(r"\A(?:[A-Za-z]+://|//www\.)[^/]*")
# A quote after the first slash: `/"` in `/"private/"`.
_QUOTE_AT_START = re.compile(rf"\A/[{QUOTES}]++/?")
#: A pattern with a host name or a quote: `//www.example/a`, `/"a"`, `/a"`.
has_host_or_quote = re.compile(rf"//www\.|/[{QUOTES}]|[^{QUOTES}]*[{QUOTES}]\Z").match
# A dot or colon in the first segment of a relative path: `www.example/a`.
_has_dot_or_colon = re.compile("[^/]*[.:]").match
_has_space_or_quote = re.compile(f"[ {QUOTES}]").search
# A regular expression that matches any text: `.*`, `.+`.
_ANYTHING = re.compile(r"\.[*+]\??")
# An escaped character in a regular expression: `\.`, `\/`.
_ESCAPED = re.compile(r"\\([^A-Za-z0-9])")
# A pattern with alternatives: `/(a|b)/c`.
_ALTERNATIVES = re.compile(r"([^()]*)\(([^()|]*\|[^()]*)\)([^()]*)")
# Maximum number of alternatives to suggest rules for. More would not fit in a message.
_MAX_ALTERNATIVES = 4


def spelled_key(line: Line) -> str:
    """Return the usual spelling of a line's key."""
    key: str = line.key if line.kind is LineKind.RECORD else line.kind.value
    return _SPELLINGS.get(key, key.capitalize())


@lru_cache(maxsize=1024)
def similar_key(key: str) -> str | None:
    """Return the known key that is most similar to an unknown key, or `None` if none is similar."""
    # Characters other than ASCII are often invisible, such as a no-break space before the key.
    plain = re.sub(_BYTE, "", key).encode("ascii", "ignore").decode()
    if len(plain) > _MAX_SIMILAR_KEY:
        return None
    plain = plain.lower().replace("_", "-").replace(" ", "-")
    close = difflib.get_close_matches(plain, _KEYS_TO_SUGGEST, n=1, cutoff=0.8)
    return _SPELLINGS[close[0]] if close else None


def meant_record(line: Line) -> tuple[str, str] | None:
    """Return the key and value that were probably meant by a line without a known key.

    :returns: `None` if the line has a known key, or none that is similar.
    """
    is_junk = line.kind is LineKind.JUNK
    if not is_junk and Flag.UNKNOWN_KEY not in line.flags:
        return None
    key, value = line.key, line.value
    parts = _split_record(line.text[:MAX_LINE].partition("#")[0].strip())
    # In a record, the first colon may be in the value: `Sitemap https://a.example/s.xml`.
    if parts and ":" not in parts[2] and (is_junk or parts[1].lower() in KEYS):
        key, value = (parts[1], parts[3]) if _is_value(parts[3]) else (key, value)
    similar = similar_key(key)
    return None if similar is None else (similar, value)


def suggest_record(key: str, value: str) -> str:
    """Suggest a record with a known key, or return an empty string if its value is not certain."""
    plain = without_ends(value)
    meant, is_certain = "", key not in ("Sitemap", "User-agent") or " " not in plain
    if key == "User-agent":
        meant = suggest_names(value)
    elif key in ("Allow", "Disallow") and plain:
        meant, is_certain = suggest_rules(key, value), plain[0] in "/*"
    return meant or f"{key}: {plain}".strip() * is_certain


def names_nobody(value: str) -> bool:
    """Return whether a user-agent line fails to match any crawler."""
    token, _ = names_in_line(to_octets(value))
    return not token and not value[:1].isalnum()


def invisible_start(value: str) -> str:
    """Return the invisible character at the start of a value, such as ``U+00A0``, if there is one.

    Otherwise, return an empty string.
    """
    return f"U+{ord(value[0]):04X}" if value and value[0] in INVISIBLE else ""


def without_ends(value: str) -> str:
    """Remove quotes, invisible characters and an HTML tag from both ends of a value."""
    return _TAG_AT_END.sub("", value.strip(_ENDS)).strip(f"<>{_ENDS}")


def suggested_lines(meant: str) -> list[str]:
    """Return the complete lines in a suggestion, or an empty list if it is advice."""
    return _before_line.split(meant)[1 : -1 if meant.endswith("...") else None]


def suggest_names(value: str) -> str:
    """Suggest a correction for a user-agent line, or return an empty string if none is certain."""
    value = without_ends(value)
    names = names_in_list(value)
    if len(names) > 1:
        return _one_line_each("User-agent", names)
    if names_in_line(to_octets(value))[0] == ANY:
        names = [ANY]
    elif "/" in value:  # a product with a version, or a full User-Agent header
        names = list(product_tokens(shorten(value)))
    is_exact = names in ([ANY], [*filter(is_token, names[:1])])
    return f"User-agent: {names[0]}" if names and is_exact else ""


def names_in_list(value: str) -> list[str]:
    """Return the names in a list such as `One, Two and Three`, or the value if it is not a list."""
    names = [name for name in _BETWEEN_NAMES.split(" ".join(value.split())) if name]
    return names if names and all(map(_is_name, names)) else [value]


def _one_line_each(key: str, values: Iterable[str]) -> str:
    return "one line each: " + ", ".join(f"{key}: {value}" for value in values)


def describe_name(value: str) -> str:
    """Return the effect of a name that is not a product token."""
    octets = to_octets(value)
    token, name = names_in_line(octets)  # `bot` and `bot1`, in lowercase
    if token == ANY:
        return "it matches every crawler"
    spelled_name, spelled_token = as_text(octets[: len(name)]), as_text(octets[: len(token)])
    if not token:
        return f"only crawlers that compare full names match `{spelled_name}` ({_ONLY_LETTERS})"
    if name != token:
        return f"it matches the crawlers `{spelled_name}` and `{spelled_token}` ({_ONLY_LETTERS})"
    return f"it matches the crawler `{spelled_token}`"


def suggest_path(value: str) -> str:
    r"""Suggest a valid pattern for a URL, a file system path or a regular expression.

    For example, this returns `/private/` for `https://www.example/private/`, `./private/`,
    `private/`, `\private\` and `^/private/.*$`, and an empty string if no pattern is certain.
    """
    plain = without_ends(value)
    path = _SITE.sub("", plain)
    is_entire_site = path != plain and path in ("", "/", "/*")  # it may be another site
    if not path or is_entire_site or find_invalid_byte(path):
        return ""
    path = _QUOTE_AT_START.sub("/", path)
    if is_regular_expression(path):
        path = _ANYTHING.sub("*", path.removeprefix("^"))  # `^/a/.*` becomes `/a/*`
        path = _ESCAPED.sub(r"\1", path)  # `/a\.html` becomes `/a.html`
    path = path.replace("\\", "/")  # `\a\b` becomes `/a/b`
    path = path.removesuffix("*$").removesuffix("*")  # patterns are prefixes anyway
    if path[:1] == "?":  # this was probably meant to match the query of any page
        path = f"/*{path}"
    elif path[:1] not in ("/", "*"):
        path = path.removeprefix("./")
        # `www.example/a` may start with the name of a site, and `../a` and `C:/a` have no meaning.
        path = "" if _has_dot_or_colon(path) else f"/{path}"
    return "" if _has_space_or_quote(path) or is_regular_expression(path) else path


def suggest_rules(key: str, value: str) -> str:
    """Suggest rules for a pattern, or return an empty string if no rule is certain."""
    patterns = _BETWEEN_PATTERNS.split(without_ends(value))
    alternatives = _ALTERNATIVES.fullmatch(value)
    if alternatives is not None:
        before, inside, after = alternatives.groups()  # `/(a|b)/c` becomes `/a/c` and `/b/c`
        choices = inside.split("|", _MAX_ALTERNATIVES)[:_MAX_ALTERNATIVES]
        patterns = [suggest_path(before + choice + after) for choice in choices]
    if len(patterns) > 1:
        return _one_line_each(key, patterns) if all(map(_is_listed_pattern, patterns)) else ""
    path = suggest_path(value)
    return f"{key}: {path}" if path else ""
