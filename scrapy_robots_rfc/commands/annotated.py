"""Show an entire robots.txt as text or HTML, with the deciding line and findings marked."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any, NamedTuple

from scrapy_robots_rfc.commands.common import (
    GOOD,
    STRONG,
    Console,
)
from scrapy_robots_rfc.commands.html_pages import START, digest
from scrapy_robots_rfc.commands.lint import explained, marked, summary
from scrapy_robots_rfc.core.explanation import lines_of
from scrapy_robots_rfc.core.lint import lint
from scrapy_robots_rfc.core.lint_findings import Finding
from scrapy_robots_rfc.core.robotstxt import RobotsTxt
from scrapy_robots_rfc.core.text import printable

#: Marks for the roles of lines.
_MARKS = {"decides": ">", "lost": "-", "near": "?"}
_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 60rem; padding: 0 1rem }
ol { border: 1px solid #8886; list-style: none; padding: 0 }
li { display: grid; grid-template-columns: 4.5rem 1fr; padding: 0 .5rem; white-space: pre-wrap }
li, code { font: 14px/1.6 ui-monospace, monospace }
li > b { color: #888; font-weight: normal; text-align: right; padding-right: 1rem }
.applies, .near, .lost, .decides { border-left: 4px solid #36c }
.lost { background: #8882 }
.allowed .decides { background: #2a43 }
.disallowed .decides { background: #d333 }
.decides code { font-weight: bold }
p { grid-column: 2; margin: 0 0 .3rem; white-space: normal }
.error { color: #c22 } .warning { color: #b60 } .notice { color: #888 }
"""


class AnnotatedLine(NamedTuple):
    """A line of a file.

    :param role: ``decides``, ``lost`` (it also matches), ``near`` (it was probably meant to
        decide), ``applies`` (it is in the group that applies) or an empty string.
    :param findings: the mistakes in the line.
    """

    number: int
    text: str
    role: str
    findings: Sequence[Finding]


def annotated_lines(file: RobotsTxt, record: Mapping[str, Any]) -> list[AnnotatedLine]:
    """Return all lines of a file.

    :param record: the JSON object of `check` for a URL.
    """
    findings = defaultdict[int, list[Finding]](list)
    for finding in lint(file):
        findings[finding.line].append(finding)
    roles = {line["line"]: "near" for line in record["near"]}
    roles |= {rule["line"]: "lost" for rule in record["lost"]}
    if record["line"] is not None:
        roles[record["line"]] = "decides"
    for first, last in record["group_lines"]:
        for number in range(first, last + 1):
            roles.setdefault(number, "applies")
    return [
        AnnotatedLine(
            line.number, line.text, roles.get(line.number, ""), findings.get(line.number, ())
        )
        for line in lines_of(file)
    ]


def show_lines(lines: Iterable[AnnotatedLine], console: Console) -> None:
    """Print the lines. ``|`` marks the group that applies."""
    for line in lines:
        mark = console.paint(_MARKS.get(line.role, " "), STRONG, GOOD)
        bar = "|" if line.role else " "
        console.print(f"{mark} {line.number:>5} {bar} {printable(line.text)}".rstrip())
        for finding in line.findings:
            place, *rest = marked(finding, console)
            console.print(f"{'':>9}{place.removeprefix('|')} {summary(finding, console)}")
            for text in rest:
                console.print(f"{'':>10}{text}")


def html_page(records: Iterable[tuple[Mapping[str, Any], Sequence[AnnotatedLine]]]) -> str:
    """Return an HTML page with the verdict and the file for each agent, without scripts."""
    sections = "\n".join(_section(record, lines) for record, lines in records)
    return (
        f"{START}{digest(_STYLE)}'; base-uri 'none'; form-action 'none'\">\n"
        '<meta name="robots" content="noindex">\n<meta name="color-scheme" content="light dark">\n'
        f"<title>robots.txt</title>\n<style>{_STYLE}</style>\n</head>\n"
        f"<body>\n{sections}\n</body>\n</html>\n"
    )


def _section(record: Mapping[str, Any], lines: Iterable[AnnotatedLine]) -> str:
    """Return the verdict for an agent and the file."""
    items = "\n".join(map(_item, lines))
    facts = (record["why"], f"agent: {record['agent']}", f"group: {record['group_why']}")
    return (
        f'<section class="{record["verdict"]}">\n<h2>{record["verdict"]}'
        f" <code>{_escaped(record['url'])}</code></h2>\n<div>{'<br>'.join(map(_escaped, facts))}"
        f"</div>\n<ol>\n{items}\n</ol>\n</section>"
    )


def _item(line: AnnotatedLine) -> str:
    """Return a line and its findings."""
    notes = "".join(
        f'<p class="{finding.severity.value}">{finding.severity.value} {finding.code}: '
        f"{_escaped('; '.join(explained(finding)))}</p>"
        for finding in line.findings
    )
    mark = escape(_MARKS.get(line.role, ""))
    return (
        f'<li class="{line.role}"><b>{mark} {line.number}</b><code>{_escaped(line.text)}</code>'
        f"{notes}</li>"
    )


def _escaped(text: str) -> str:
    return escape(printable(text))
