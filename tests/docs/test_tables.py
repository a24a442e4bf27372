"""Tables, lists and pictures of the documents are complete, and agree with the code."""

from __future__ import annotations

import dataclasses
import re
import shlex
import tomllib
from functools import cache
from itertools import accumulate, chain
from typing import NamedTuple

from scrapy.settings import Settings

from scrapy_robots_rfc import RobotsService, signals, stats
from scrapy_robots_rfc.fetching.parsed import OriginPolicy
from scrapy_robots_rfc.policy.origins import Site
from scrapy_robots_rfc.reporting.report import FIELDS
from scrapy_robots_rfc.reporting.summary import HEADING
from scrapy_robots_rfc.settings import TABLE, read_settings
from tests.support.case_files import Clause, clauses_by_id
from tests.support.documents import FENCE, LINK, ROOT, executed, read, rows
from tests.support.log_texts import texts

PACKAGE = ROOT / "scrapy_robots_rfc"
DEFAULTS = read_settings(Settings())
DAY = 86_400


def first_cells(page: str, head: str, after: str = "") -> list[str]:
    """Return the first cells of a table, without backticks; see `rows`."""
    return [row[0].strip("`").strip() for row in rows(page, head, after)]


# The settings.


def shown(value: object) -> str:
    """Return a default as the page shows it."""
    return f"`{int(value) if isinstance(value, float) and value.is_integer() else value!r}`"


def test_settings() -> None:
    """docs/settings.md has a section for each setting, in the order of the code, with the type, the
    default and the accepted values.
    """
    facts = re.findall(
        r"^## `(\w+)`\n\n(.*)\n\n- Type: (.*)\n- Default: (.*)\n- Accepted: (.*)\n",
        read("docs/settings.md"),
        re.MULTILINE,
    )
    assert [(key, default, accepted) for key, _, _, default, accepted in facts] == [
        (row.key, shown(row.default), row.accepted) for row in TABLE
    ]
    assert all(text and kind for _, text, kind, _, _ in facts)


def test_examples_of_settings() -> None:
    """Each setting has an example for settings.py, and the same value for `-s`."""
    text = read("docs/settings.md")
    examples = re.findall(r"^- Examples: `(.*)`, `-s (.*)`$", text, re.MULTILINE)
    for row, (code, command) in zip(TABLE, examples, strict=True):
        example = executed(code)
        [argument] = shlex.split(command)
        key, _, value = argument.partition("=")
        assert key == row.key
        assert row.read(value) == row.read(example[row.key])
        assert row.read(value) != row.read(row.default)


def test_examples_of_sites() -> None:
    """Each site in docs/steering.md is accepted by ROBOTS_EXEMPT."""
    entries = re.findall(r"^\| `([^`]+)` \| ", read("docs/steering.md"), re.MULTILINE)
    assert len(entries) == 6
    assert [Site.of(entry).text for entry in entries] == entries


# The stats, the signals, the service and the report.


def test_stats() -> None:
    """docs/report.md has a row for each stat."""
    keys = [
        value for name, value in vars(stats).items() if name.isupper() and isinstance(value, str)
    ]
    table = rows("docs/report.md", "key |")
    assert sorted(key for key, _ in table) == sorted(f"`{key}`" for key in keys)
    assert all(text for _, text in table)


def test_reasons() -> None:
    """docs/troubleshooting.md explains each reason in the stats of dropped pages."""
    [row] = [line for line in read("docs/report.md").splitlines() if "forbidden/{reason}" in line]
    counted = re.findall(r"`(\w+)`", row.partition("by `Reason`")[2])
    explained = first_cells("docs/troubleshooting.md", "reason | what it means | what you can do")
    assert sorted(explained) == sorted(counted)


def test_fields_of_the_report() -> None:
    """docs/report.md has a row for each field, in order."""
    table = rows("docs/report.md", "field |")
    assert [name for name, _ in table] == [f"`{name}`" for name in FIELDS]
    assert all(text for _, text in table)


def test_signals() -> None:
    """docs/spiders.md has a row for each signal."""
    names = {name for name, value in vars(signals).items() if type(value) is object}
    assert set(first_cells("docs/spiders.md", "signal |")) == names


def public(cls: type) -> set[str]:
    """Return the public names of a class, including its fields."""
    fields = dataclasses.fields(cls) if dataclasses.is_dataclass(cls) else ()
    names = {*vars(cls), *(field.name for field in fields)}
    return {name for name in names if not name.startswith("_")}


def test_service() -> None:
    """The names of the service and of its results in docs/spiders.md exist."""
    for cls in (RobotsService, OriginPolicy):
        described = first_cells("docs/spiders.md", "", f"## `{cls.__name__}`\n")
        assert described
        assert public(cls).issuperset(described)


# The log.


def lines_by_level() -> dict[str, str]:
    """Return the level of each beginning of a line in docs/log.md."""
    levels = re.findall(r"^## `([A-Z]+)`\n", read("docs/log.md"), re.MULTILINE)
    return {
        beginning: level
        for level in levels
        for beginning in first_cells("docs/log.md", "line |", f"## `{level}`\n")
    }


def test_log_lines() -> None:
    """docs/log.md has the beginning of each line that the code can log, below its level."""
    level_of = lines_by_level()
    used = set()
    for text, levels in {**texts(), HEADING.format(spider="..."): {"INFO"}}.items():
        matching = [beginning for beginning in level_of if text.startswith(beginning)]
        assert matching, text
        beginning = max(matching, key=len)
        assert level_of[beginning] in levels, text
        used.add(beginning)
    assert used == level_of.keys()


# The clauses of RFC 9309.

#: The numbers of the clauses of RFC 9309, 2.1 to 2.5 and 3, that concern a crawler.
NUMBERS = range(1, 39)


class Row(NamedTuple):
    """A row of one of the two tables in docs/rfc9309.md.

    :param clause: the number of the clause, or the name of the decision.
    :param level: MUST, SHOULD and so on, or an empty string for a decision.
    :param tests: the tests that it names, as ``path::name``.
    """

    clause: Clause
    level: str
    tests: list[str]


@cache
def clauses() -> list[Row]:
    """Return all rows of both tables."""
    found: list[Row] = []
    for line in read("docs/rfc9309.md").splitlines():
        cells = [cell.strip() for cell in line.split("|")[1:-1]]
        tests = re.findall(r"`(tests/[^`]+::[^`]+)`", line)
        if cells and cells[0].isdigit():
            found.append(Row(int(cells[0]), cells[2], tests))
        elif cells and re.fullmatch(r"`[a-z0-9-]+`", cells[0]):
            found.append(Row(cells[0].strip("`"), "", tests))
    return found


def test_every_clause_has_one_row() -> None:
    """Each clause has one row, in the order of the RFC, and so has each decision."""
    assert [row.clause for row in clauses() if isinstance(row.clause, int)] == list(NUMBERS)
    names = [row.clause for row in clauses() if isinstance(row.clause, str)]
    assert len(names) == len(set(names)) > 0


def test_requirements_have_a_proof() -> None:
    """A clause with MUST or SHOULD has a case or names a test, and each case belongs to a row."""
    with_case = {*chain.from_iterable(clauses_by_id().values())}
    assert with_case <= {row.clause for row in clauses()}
    required = [row for row in clauses() if "MUST" in row.level or "SHOULD" in row.level]
    assert len(required) > 15
    assert [row.clause for row in required if row.clause not in with_case and not row.tests] == []


def test_named_tests_exist() -> None:
    """Each test that a row names exists."""
    missing = []
    for test in chain.from_iterable(row.tests for row in clauses()):
        path, _, name = test.partition("::")
        source = read(path) if (ROOT / path).is_file() else ""
        if not re.search(rf"^(?:async )?def {name}\(", source, re.MULTILINE):
            missing.append(test)
    assert missing == []


# Names of files and code.


def test_architecture() -> None:
    """The paths, modules and methods in ARCHITECTURE.md exist."""
    text = read("ARCHITECTURE.md")
    folders = [ROOT, PACKAGE, *(path.parent for path in PACKAGE.rglob("__init__.py"))]
    paths = re.findall(r"`([\w./-]+\.(?:py|md)|[\w./-]+/)`", text)
    assert [path for path in paths if not any((each / path).exists() for each in folders)] == []
    for name, path in re.findall(r"`([A-Za-z_][\w.]*)`\s+in\s+`([\w/]+\.py)`", text):
        source = read(f"scrapy_robots_rfc/{path}")
        assert all(re.search(rf"\b{part}\b", source) for part in name.split(".")), (name, path)
    code = "\n".join(path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py"))
    for owner, name in re.findall(r"`([A-Z]\w+)\.(\w+)`", text):
        body = re.search(rf"^class {owner}\b.*?(?=^\S|\Z)", code, re.DOTALL | re.MULTILINE)
        assert body, owner
        assert re.search(rf"^    (?:async )?def {name}\(", body[0], re.MULTILINE), (owner, name)


def test_every_page_is_linked() -> None:
    """The page that the README links to as all documentation has every page, and so does the
    navigation of the site.
    """
    assert "[All documentation](docs/contents.md)" in read("README.md")
    contents = FENCE.sub("", read("docs/contents.md"))
    linked = {(ROOT / "docs" / link.partition("#")[0]).resolve() for link in LINK.findall(contents)}
    assert {*ROOT.glob("docs/**/*.md")} - linked == {ROOT / "docs" / "contents.md"}
    listed = re.findall(r"^      - ([\w/]+\.md)$", read("mkdocs.yml"), re.MULTILINE)
    made = {*re.findall(r'"\w+\.md": "(\w+\.md)"', read("tools/site_hooks.py")), "api.md"}
    pages = {path.relative_to(ROOT / "docs").as_posix() for path in ROOT.glob("docs/**/*.md")}
    assert sorted(listed) == sorted(pages | made)


def test_dependencies() -> None:
    """The README names Scrapy as the only dependency, and each extra with its package."""

    def name_of(requirement: str) -> str:
        return re.split(r"[^\w.-]", requirement)[0].lower()

    project = tomllib.loads(read("pyproject.toml"))["project"]
    # Scrapy itself needs queuelib.
    assert [name_of(text) for text in project["dependencies"]] == ["scrapy", "queuelib"]
    assert "Scrapy is the only dependency." in read("README.md")
    extras = {
        extra: {name_of(text) for text in texts}
        for extra, texts in project["optional-dependencies"].items()
    }
    text = " ".join(read("README.md").split())
    named = re.findall(r"`'\.\[(\w+)\]'` (?:also installs )?(\w+),", text)
    assert {extra: {package} for extra, package in named} == extras


def test_install_lines() -> None:
    """Documents for users install the package from the clone, because it isn't published yet."""
    pages = [ROOT / "README.md", *ROOT.glob("docs/**/*.md")]
    text = " ".join(path.read_text(encoding="utf-8") for path in pages)
    installed = re.findall(r"pip\s+install\s+(\S+)", text)
    assert installed
    assert {name.strip("`'") for name in installed} <= {".", ".[redis]", ".[archive]", ".[fleet]"}


# The pictures in docs/assets.


def drawn(name: str) -> str:
    """Return the text of a picture without markup."""
    svg = read(f"docs/assets/{name}.svg")
    return re.sub(r"\s+", " ", re.sub(r"<style>.*?</style>|<[^>]*>", " ", svg, flags=re.DOTALL))


def test_picture_of_a_failing_file() -> None:
    """The picture on docs/failing.md has the time of each attempt, at two kinds of sites."""
    text = drawn("failing")
    for attempt in (0, DEFAULTS.timeout):
        steps = [0.0, *(attempt + pause for pause in DEFAULTS.unreachable_backoff)]
        starts = [*accumulate(steps)]
        for number, start in enumerate(starts, start=1):
            assert f" {start:g} s attempt {number} " in text
        dropped = starts[-1] + attempt
        assert f" {dropped + DEFAULTS.unreachable_ttl:g} s attempt 1 again" in text
    assert f" {dropped:g} s pages are dropped" in text
    assert [int(pause) for pause in re.findall(r"wait (\d+) s", text)] == [
        *map(int, DEFAULTS.unreachable_backoff)
    ] * 2


def test_picture_of_freshness() -> None:
    """The picture on docs/caching.md has the limits of each state."""
    text = drawn("freshness")
    shortest, longest = DEFAULTS.cache_min_age / 60, DEFAULTS.cache_max_age / 3600
    assert f"for {shortest:g} minutes to {longest:g} hours" in text
    assert f"an attempt every {DEFAULTS.unreachable_ttl:g} s" in text
    assert f"{DEFAULTS.stale_max_age / DAY:g} days after the last success nothing" in text
    assert DEFAULTS.unreachable_max_age is not None
    days = DEFAULTS.unreachable_max_age / DAY
    assert f"{days:g} days after the first failure everything" in text
