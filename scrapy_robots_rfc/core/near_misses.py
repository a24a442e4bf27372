"""Find rules that were probably meant for a URL, but do not match it."""

from collections.abc import Iterator

from scrapy_robots_rfc.core.explanation import Explanation, Flag, Line, lines_of
from scrapy_robots_rfc.core.lines import KEYS, RULES, LineKind
from scrapy_robots_rfc.core.lint_suggestions import similar_key, suggest_path
from scrapy_robots_rfc.core.percent import parse_pattern, request_target, to_octets
from scrapy_robots_rfc.core.robotstxt import RobotsTxt


def near_misses(
    robots: RobotsTxt, explanation: Explanation, url: str, kind: LineKind
) -> Iterator[tuple[Line, str]]:
    """Yield each line that was probably meant to be a rule for a URL, and why it is not.

    :param explanation: the explanation of the decision for the URL.
    :param kind: the kind of rule to look for.
    """
    matching = {rule.line for rule in explanation.matches}
    target = request_target(url)
    for line in lines_of(robots):
        is_in_group = any(group.line <= line.number <= group.last for group in explanation.groups)
        if is_in_group and line.number not in matching and line.value:
            problem = _problem(line, target, kind)
            if problem is not None:
                yield line, problem


def _problem(line: Line, target: str, kind: LineKind) -> str | None:
    """Return why a line does not match a URL that it was probably meant for, if it was."""
    if Flag.UNKNOWN_KEY in line.flags:
        is_meant = KEYS.get((similar_key(line.key) or "").lower()) is kind
        return "the key is unknown" if is_meant and _matches(line.value, target) else None
    if line.kind not in RULES or line.kind is not kind:
        return None
    path = suggest_path(line.value)
    if path not in ("", line.value) and _matches(path, target):
        return f"{path} was probably meant"
    if _matches(line.value.lower(), target.lower()):
        return "upper and lower case differ"
    if "?" not in target and _matches(line.value, f"{target}/"):
        return "the URL does not end with a slash"
    return None


def _matches(pattern: str, target: str) -> bool:
    return parse_pattern(to_octets(pattern)).matches(target)
