"""Suggest corrections for lines that `lint.py` reports."""

import difflib
import re
from collections.abc import Iterable
from functools import lru_cache

from scrapy_robots_rfc.core.agents import ANY, is_token, names_in_line, product_tokens
from scrapy_robots_rfc.core.explanation import Line
from scrapy_robots_rfc.core.lines import KNOWN_RECORDS, LineKind, as_text
from scrapy_robots_rfc.core.percent import to_octets
from scrapy_robots_rfc.core.text import shorten

# Maximum length of a key to compare with the known keys.
_MAX_SIMILAR_KEY = 24
_KEYS_TO_SUGGEST = tuple(sorted({"user-agent", "allow", "disallow", *KNOWN_RECORDS}))
# Keys for which capitalizing the first letter does not give the usual spelling.
_USUAL_KEYS = {
    "site-map": "Sitemap",
    "disallowaitraining": "DisallowAITraining",
    "allowaitraining": "AllowAITraining",
}

_ONLY_LETTERS = "product tokens only contain letters, `-` and `_`"
_QUOTES = "\"'`\u00ab\u00bb\u2018\u2019\u201a\u201c\u201d\u201e"
#: Invisible characters: spaces other than ASCII, and marks without a width.
INVISIBLE = "\u00a0\u00ad\u061c\u1680\u180e\u3000\ufeff" + "".join(
    map(chr, (*range(0x2000, 0x2010), *range(0x2028, 0x2030), *range(0x205F, 0x2070)))
)
# Text between the names in a list: `, `, ` and `.
_BETWEEN_NAMES = re.compile(" ?[,;|] ?| and ", re.IGNORECASE)
_is_name = re.compile(r"\*|\w[\w.-]*+", re.ASCII).fullmatch
# Text between the patterns in a list: ` `, `, `.
_BETWEEN_PATTERNS = re.compile(r"[,;|]?\s++")

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
# A scheme and authority: `https://www.example` in `https://www.example/a`.
_SITE = re.compile(r"\A[A-Za-z]+://[^/]*")
# A regular expression that matches any text: `.*`, `.+`.
_ANYTHING = re.compile(r"\.[*+]\??")
# An escaped character in a regular expression: `\.`, `\/`.
_ESCAPED = re.compile(r"\\([^A-Za-z0-9])")
# A pattern with alternatives: `/(a|b)/c`.
_ALTERNATIVES = re.compile(r"([^()]*)\(([^()]*\|[^()]*)\)([^()]*)")
# Maximum number of alternatives to suggest rules for. More would not fit in a message.
_MAX_ALTERNATIVES = 4


def spelled_key(line: Line) -> str:
    """Return the usual spelling of a line's key."""
    key: str = line.key if line.kind is LineKind.RECORD else line.kind.value
    return _USUAL_KEYS.get(key, key.capitalize())


@lru_cache(maxsize=1024)
def similar_key(key: str) -> str | None:
    """Return the known key that is most similar to an unknown key, or `None` if none is similar."""
    if len(key) > _MAX_SIMILAR_KEY:
        return None
    # Characters other than ASCII are often invisible, such as a no-break space before the key.
    plain = key.encode("ascii", "ignore").decode().replace("_", "-").replace(" ", "-")
    close = difflib.get_close_matches(plain, _KEYS_TO_SUGGEST, n=1, cutoff=0.8)
    return close[0].capitalize() if close else None


def names_nobody(value: str) -> bool:
    """Return whether a user-agent line fails to match any crawler."""
    token, _ = names_in_line(to_octets(value))
    return not token and not value[:1].isalnum()


def without_ends(value: str) -> str:
    """Remove quotes, invisible characters and an HTML tag from both ends of a value."""
    value = value.strip(f" \t{_QUOTES}{INVISIBLE}")
    if value[:1] == "<":
        value = value.partition(">")[2] or value
    if value[-1:] == ">":
        value = value.rpartition("<")[0] or value
    return value.strip(f" \t{_QUOTES}{INVISIBLE}")


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
    return f"User-agent: {names[0]}" if len(names) == 1 and _is_exact(names[0]) else ""


def names_in_list(value: str) -> list[str]:
    """Return the names in a list such as `One, Two and Three`, or the value if it is not a list."""
    names = [name for name in _BETWEEN_NAMES.split(" ".join(value.split())) if name]
    return names if names and all(map(_is_name, names)) else [value]


def _is_exact(name: str) -> bool:
    return name == ANY or is_token(name)


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
    path = _SITE.sub("", without_ends(value))
    if path in ("", "/", "/*"):  # an entire site, which may be another one
        return ""
    path = _ANYTHING.sub("*", path.removeprefix("^"))  # `^/a/.*` becomes `/a/*`
    path = _ESCAPED.sub(r"\1", path)  # `/a\.html` becomes `/a.html`
    path = path.replace("\\", "/")  # `\a\b` becomes `/a/b`
    path = path.removesuffix("*$").removesuffix("*")  # patterns are prefixes anyway
    if path[:1] == "?":  # this was probably meant to match the query of any page
        path = f"/*{path}"
    elif path[:1] != "*":
        path = path.removeprefix("./")
        # `www.example/a` may start with the name of a site, and `../a` has no meaning.
        is_certain = path[:1] == "/" or "." not in path.partition("/")[0]
        path = "/" + path.lstrip("/") if is_certain else ""
    return "" if " " in path or is_regular_expression(path) else path


def suggest_rules(line: Line, value: str) -> str:
    """Suggest rules for a pattern, or return an empty string if no rule is certain."""
    key = spelled_key(line)
    patterns = _BETWEEN_PATTERNS.split(without_ends(value))
    alternatives = _ALTERNATIVES.fullmatch(value)
    if alternatives is not None:
        before, inside, after = alternatives.groups()  # `/(a|b)/c` becomes `/a/c` and `/b/c`
        choices = inside.split("|", _MAX_ALTERNATIVES)[:_MAX_ALTERNATIVES]
        patterns = [suggest_path(before + choice + after) for choice in choices]
    if len(patterns) > 1:
        return _one_line_each(key, patterns) if all(each[:1] == "/" for each in patterns) else ""
    path = suggest_path(value)
    return f"{key}: {path}" if path else ""
