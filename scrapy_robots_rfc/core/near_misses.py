"""Find lines that were probably meant for a URL or crawler, but do not match it."""

from collections.abc import Iterator

from scrapy_robots_rfc.core.explanation import Explanation, Line, groups_of, lines_of
from scrapy_robots_rfc.core.lines import KEYS, LineKind
from scrapy_robots_rfc.core.lint_suggestions import (
    INVISIBLE,
    meant_record,
    suggest_names,
    suggest_path,
    without_ends,
)
from scrapy_robots_rfc.core.percent import parse_pattern, request_target, to_octets
from scrapy_robots_rfc.core.robotstxt import RobotsTxt

_WITHOUT_INVISIBLE = dict.fromkeys(map(ord, INVISIBLE))


def near_misses(
    robots: RobotsTxt, explanation: Explanation, url: str, kind: LineKind
) -> Iterator[tuple[Line, str]]:
    """Yield each line that was probably meant to decide about a URL, and why it does not.

    :param explanation: the explanation of the decision for the URL.
    :param kind: the kind of rule to look for.
    """
    host = url.partition("://")[2].partition("/")[0].lower()
    target = request_target(url)
    matching = {rule.line for rule in explanation.matches}
    own_groups = {group.line for group in explanation.groups}
    # First line of each group -> whether it has a rule that would decide.
    decides = {
        group.line: any(
            rule.kind.name == kind.name and _matches(rule.pattern, target) for rule in group.rules
        )
        for group in groups_of(robots)
    }
    start = 0  # the first line of the current group
    for line in lines_of(robots):
        start = line.number if line.number in decides else start
        problem = None
        if start in own_groups and line.number not in matching:
            problem = _problem(line, host, target, kind)
        elif decides.get(start) and line.kind is LineKind.USER_AGENT:
            meant = suggest_names(line.value).lower()  # `user-agent: foobot`
            names = (n for n in explanation.crawler_tokens if f"user-agent: {n.lower()}" == meant)
            problem = next((f"{name} was probably meant" for name in names), None)
        if problem is not None:
            yield line, problem


def _problem(line: Line, host: str, target: str, kind: LineKind) -> str | None:
    """Return why a line doesn't match a URL, or `None` if it probably wasn't meant for that URL.

    :param kind: the kind of rule to look for.
    """
    meant = meant_record(line)
    if meant is not None:  # the line's own key is unknown
        key, value = meant
        is_meant = KEYS.get(key.lower()) is kind and _matches(suggest_path(value), target)
        return "the key is unknown" if is_meant else None
    if line.kind is not kind:
        return None
    # A pattern with the host of the URL: `www.example/a`, `//www.example/a`.
    stripped = without_ends(line.value).lstrip("/")
    has_host = host and stripped.lower().startswith(f"{host}/")
    value = stripped[len(host) :] if has_host else line.value
    path = suggest_path(value.translate(_WITHOUT_INVISIBLE))
    if path not in ("", line.value) and _matches(path, target):
        return f"{path} was probably meant"
    if _matches(line.value.lower(), target.lower()):
        return "upper and lower case differ"
    if "?" not in target and _matches(line.value, f"{target}/"):
        return "the URL does not end with a slash"
    return None


def _matches(pattern: str, target: str) -> bool:
    return pattern != "" and parse_pattern(to_octets(pattern)).matches(target)
