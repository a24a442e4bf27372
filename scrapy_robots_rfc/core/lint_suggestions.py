"""Suggest corrections for lines that `lint.py` reports."""

import difflib
import re
from collections.abc import Collection
from functools import lru_cache

from scrapy_robots_rfc.core.agents import ANY, names_in_line, product_tokens
from scrapy_robots_rfc.core.findings import Line
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

_RUN = re.compile("[A-Za-z_-]+")
_ONLY_LETTERS = "product tokens only contain letters, `-` and `_`"
# An HTML tag: `<b>`.
_TAG = re.compile("<[^<>]*>")

#: Text that suggests a regular expression: `^/private`, `/foo/.*`, `/a.+b`, `\.pdf`, `[0-9]`,
#: `(a|b)`.
is_regular_expression = re.compile(
    r"^\^|(?:^|[/)\]])\.[*+]|\.\+|\\[.dwsDWS/?*$]|\[\^?\w-\w|\([^()|]*\|[^()]*\)"
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
    # Other characters than ASCII are often invisible, such as a no-break space before the key.
    plain = key.encode("ascii", "ignore").decode().replace("_", "-").replace(" ", "-")
    close = difflib.get_close_matches(plain, _KEYS_TO_SUGGEST, n=1, cutoff=0.8)
    return close[0].capitalize() if close else None


def names_nobody(value: str) -> bool:
    """Return whether a user-agent line fails to match any crawler."""
    token, _ = names_in_line(to_octets(value))
    return not token and not value[:1].isalnum()


def suggest_name(value: str) -> str:
    """Suggest a correction for a user-agent line that does not match any crawler."""
    runs = _RUN.findall(_TAG.sub("", value))
    if runs:
        return f"User-agent: {max(runs, key=len)}"
    if ANY in value:
        return f"User-agent: {ANY}"
    return f"User-agent: {ANY}, or the name of a crawler"


def describe_name(value: str, shared_tokens: Collection[str]) -> tuple[str, str]:
    """Return the effect and a suggested correction for a name that is not a product token.

    :param shared_tokens: tokens that are shared by several names, such as `bot` for `bot1` and
        `bot2`.
    """
    octets = to_octets(value)
    token, name = names_in_line(octets)  # `bot` and `bot1`, in lowercase
    if token == ANY:
        return "it matches every crawler", f"User-agent: {ANY}"
    spelled_name = as_text(octets[: len(name)])
    if not token:
        effect = f"only crawlers that compare full names match `{spelled_name}` ({_ONLY_LETTERS})"
        return effect, "the product token of the crawler"
    spelled_token = _RUN.findall(_TAG.sub(" ", value))[0]
    if name != token:
        effect = f"it matches the crawlers `{spelled_name}` and `{spelled_token}` ({_ONLY_LETTERS})"
        if token in shared_tokens:
            # Don't suggest the token, because it matches the others as well.
            return effect, "names that differ in their letters"
        return effect, f"User-agent: {spelled_token}"
    # If the value is a full User-Agent header, the crawler's name may not be the first word.
    header_names = product_tokens(shorten(value))
    suggestion = header_names[0] if header_names else spelled_token
    return f"it matches the crawler `{spelled_token}`", f"User-agent: {suggestion}"


def _suggest_path(value: str) -> str:
    r"""Suggest a valid pattern for a URL, a file system path or a regular expression.

    For example, this returns `/private/` for `https://www.example/private/`, `./private/`,
    `private/`, `\private\` and `^/private/.*$`.
    """
    if value[:1] in ('"', "'"):
        value = value.strip("\"'")
    path = _SITE.sub("", _TAG.sub("", value))
    path = _ANYTHING.sub("*", path.removeprefix("^"))  # `^/a/.*` becomes `/a/*`
    path = _ESCAPED.sub(r"\1", path)  # `/a\.html` becomes `/a.html`
    path = path.replace("\\", "/")  # `\a\b` becomes `/a/b`
    path = path.removesuffix("*$").removesuffix("*")  # patterns are prefixes anyway
    if path[:1] == "*":
        return path
    if path[:1] == "?":  # this was probably meant to match the query of any page
        return f"/*{path}"
    return "/" + path.removeprefix("./").removeprefix("../").lstrip("/")


def suggest_rules(line: Line) -> str:
    """Suggest rules for a line with an invalid pattern."""
    key = spelled_key(line)
    alternatives = _ALTERNATIVES.fullmatch(line.value)
    if alternatives is not None:
        before, inside, after = alternatives.groups()  # `/(a|b)/c` becomes `/a/c` and `/b/c`
        choices = inside.split("|", _MAX_ALTERNATIVES)[:_MAX_ALTERNATIVES]
        paths = [_suggest_path(before + choice + after) for choice in choices]
        if not any(map(is_regular_expression, paths)):
            return "one line each: " + ", ".join(f"{key}: {path}" for path in paths)
    path = _suggest_path(line.value)
    if is_regular_expression(path):  # for example, no pattern is equivalent to `/[0-9]`
        path = "the paths as prefixes, or `*` for any characters"
    return f"{key}: {path}"
