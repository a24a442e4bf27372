"""Which package may import which, and which modules may import Scrapy, Twisted and redis-py."""

from __future__ import annotations

import ast
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path
from typing import TYPE_CHECKING

from scrapy.utils.misc import load_object

from scrapy_robots_rfc.optional import (
    ADAPT_FTP,
    COMPONENTS,
    FINAL_URLS,
    MIDDLEWARES,
    OFFLINE,
    OVERRIDES,
    SCHEDULER_AROUND,
    SHARED_TURNS,
)
from scrapy_robots_rfc.policy.origins import SCHEMES
from scrapy_robots_rfc.settings import TABLE
from tests.support.documents import ROOT
from tests.support.processes import python
from tests.support.site import PAGE, Site, robots

if TYPE_CHECKING:
    from collections.abc import Iterator

PACKAGE = "scrapy_robots_rfc"

#: From top to bottom: a folder imports from itself, from the folders below it, and from the tables.
LAYERS = (
    "commands",
    "addon",
    "reporting",
    "usage",
    "middleware",
    "scheduling",
    "fetching",
    "cache",
    "policy",
    "core",
)
#: Tables that every folder above `policy` may import; they import each other and pure modules.
TABLES = ("settings", "stats", "signals", "errors", "optional", "_runtime", "_scrapy")
#: Optional components: folders and modules outside the kernel. Each may import the ones before it,
#: and `commands` may import all of them.
OUTSIDE = (
    "core.explanation",
    "core.lint",
    "core.lint_codes",
    "core.lint_findings",
    "core.lint_groups",
    "core.lint_suggestions",
    "core.near_misses",
    "core.response",
    "core.uses",
    "fetching.ftp",
    "fetching.offline",
    "fetching.overrides",
    "scheduling.scheduler",
    "scheduling.shared",
    "middleware.final_url",
    "usage",
    "reporting",
    "commands",
)
#: The parser works alone, under Scrapy's own middleware.
PARSER = ("policy", "core", *TABLES)

#: Folders whose modules do not import these packages. Twisted is imported only by its wrappers.
WITHOUT = {"scrapy": {"core", "policy"}, "redis": {"core", "policy"}}
TWISTED = {"_runtime", "_scrapy", "fetching.download", "fetching.ftp"}
REDIS = {"cache.stores.redis"}

#: All imports of `core` and `policy` from outside: none does I/O, reads a clock, or is random.
PURE = {
    "__future__",
    "array",
    "bisect",
    "codecs",
    "collections",
    "dataclasses",
    "email",  # reads the dates of HTTP
    "difflib",  # finds the key that is most similar to a misspelt one
    "datetime",  # the type of a time of day; see `test_no_clock`
    "enum",
    "functools",
    "ipaddress",
    "itertools",
    "json",  # the format of tdmrep.json
    "math",
    "operator",
    "re",
    "string",
    "types",  # a read-only mapping
    "typing",
    "urllib",
}


def sources() -> dict[str, Path]:
    """Return the modules of the package by name."""
    root = ROOT / PACKAGE
    return {
        ".".join(path.relative_to(root).with_suffix("").parts): path
        for path in sorted(root.rglob("*.py"))
    }


MODULES = sources()
#: The parsers of `usage` are pure, too.
PURE_MODULES = [*(name for name in MODULES if name.startswith(("core", "policy"))), "usage.rules"]


@cache
def nodes(name: str) -> list[ast.AST]:
    """Return the nodes of a module's syntax tree."""
    return list(ast.walk(ast.parse(MODULES[name].read_text(encoding="utf-8"))))


def imported(name: str) -> Iterator[str]:
    """Yield the names of all imported modules, also of imports for types and inside functions."""
    for node in nodes(name):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name} imports relatively"
            assert node.module is not None
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                yield full if full.removeprefix(f"{PACKAGE}.") in MODULES else node.module


def layer(name: str) -> str:
    """Return the folder of a module, or the module itself at the top."""
    return name.partition(".")[0]


def allowed(name: str) -> tuple[str, ...]:
    """Return the folders that a folder may import from."""
    if name == "parser":
        return PARSER
    if name in TABLES:
        return ("policy", "core", *TABLES)
    if name == "policy":
        return ("policy", "core")
    return ("core",) if name == "core" else (*LAYERS[LAYERS.index(name) :], *TABLES, "parser")


def inside(name: str) -> set[str]:
    """Return the imported modules of the package."""
    full_names = (full for full in imported(name) if full.startswith(f"{PACKAGE}."))
    return {full.removeprefix(f"{PACKAGE}.") for full in full_names}


def outside(name: str) -> set[str]:
    """Return the imported top-level modules outside the package."""
    return {full.partition(".")[0] for full in imported(name)} - {PACKAGE}


def test_imports_go_down() -> None:
    """A folder imports only from the folders below it and from the tables."""
    found = {
        module: set(map(layer, inside(module))) - set(allowed(layer(module)))
        for module in MODULES.keys() - {"__init__"}
    }
    assert {module: layers for module, layers in found.items() if layers} == {}


def test_no_import_cycles() -> None:
    """There is no import cycle, not even for types or inside functions."""
    TopologicalSorter({name: inside(name) for name in MODULES}).prepare()


def test_imports_of_optional_components() -> None:
    """The kernel imports no optional component, and a component only those before it."""
    assert all(any(name.startswith(path) for name in MODULES) for path in OUTSIDE)
    found = set[tuple[str, str]]()
    for name in set(MODULES) - {"__init__"}:  # it loads public names when they are used
        own = next((path for path in OUTSIDE if name.startswith(path)), None)
        allowed = OUTSIDE[: OUTSIDE.index(own) + 1] if own else ()
        found |= {
            (name, one)
            for one in inside(name)
            if one.startswith(OUTSIDE) and not one.startswith(allowed)
        }
    assert found == set()


def paths() -> dict[str, str]:
    """Return the setting or scheme that needs each class of the tables, by its path."""
    placed = {row.path: key for key, row in MIDDLEWARES.items()}
    return {
        ADAPT_FTP: SCHEMES["ftp"].answers.value,
        OFFLINE: "ROBOTSTXT_OBEY",
        OVERRIDES: "ROBOTS_OVERRIDES",
        SCHEDULER_AROUND: "ROBOTSTXT_OBEY",
        SHARED_TURNS: "ROBOTS_CACHE",
        FINAL_URLS: "ROBOTSTXT_OBEY",
        **placed,
        **{path: key for key, path in COMPONENTS.items()},
    }


def test_the_components_of_the_tables_exist() -> None:
    """Each row has an existing setting or scheme, and a class that the kernel does not import."""
    keys = {row.key for row in TABLE} | {scheme.answers.value for scheme in SCHEMES.values()}
    for path, key in paths().items():
        assert key in keys
        assert load_object(path).__module__.removeprefix(f"{PACKAGE}.").startswith(OUTSIDE)


#: Without optional components: their rows are gone, and a module that imports one fails.
CRAWL_WITHOUT = """
import sys

class Gone:
    def find_spec(self, name, path=None, target=None):
        if name.startswith(gone):
            raise ImportError(f"{name} was taken out")

gone = tuple(f"scrapy_robots_rfc.{path}" for path in sys.argv[1].split())
sys.meta_path.insert(0, Gone())

from scrapy_robots_rfc import optional

optional.COMPONENTS.clear()
optional.MIDDLEWARES.clear()

from scrapy import Spider
from scrapy.crawler import CrawlerProcess

class Pages(Spider):
    name = "pages"
    start_urls = sys.argv[2:]

    def parse(self, response):
        pass

settings = {
    "ADDONS": {"scrapy_robots_rfc.Addon": 500},
    "LOG_LEVEL": "ERROR",
    "TELNETCONSOLE_ENABLED": False,
    "ROBOTS_USE": ["train-ai"],
    "ROBOTS_TAG_OBEY": ["nofollow"],
}
process = CrawlerProcess(settings)
crawler = process.create_crawler(Pages)
process.crawl(crawler)
process.start()
print(*[crawler.stats.get_value(f"robotstxt/{key}", 0) for key in ("allowed", "forbidden")])
"""


def test_a_crawl_without_optional_components() -> None:
    """A crawl obeys robots.txt without any optional component."""
    with Site({"/robots.txt": robots("User-agent: *\nDisallow: /never\n"), "/a": PAGE}) as site:
        pages = [site.url("/a"), site.url("/never")]
        run = python("-c", CRAWL_WITHOUT, " ".join(OUTSIDE), *pages)
    assert (run.stdout, run.stderr) == ("1 1\n", "")


def test_imports_of_frameworks() -> None:
    """The pure folders import neither Scrapy nor redis-py, and Twisted is imported only by its
    wrappers.
    """
    for package, layers in WITHOUT.items():
        assert [
            name for name in MODULES if layer(name) in layers and package in outside(name)
        ] == []
    assert {name for name in MODULES if "twisted" in outside(name)} <= TWISTED
    assert {name for name in MODULES if "redis" in outside(name)} == REDIS


def test_pure_folders_are_pure() -> None:
    """The pure folders import nothing that does I/O, logs, reads a clock or is random."""
    assert {name: extra for name in PURE_MODULES if (extra := outside(name) - PURE)} == {}


def test_no_clock() -> None:
    """The pure folders do not get the current time from datetime."""
    for name in PURE_MODULES:
        called = {node.attr for node in nodes(name) if isinstance(node, ast.Attribute)}
        assert not called & {"now", "utcnow", "today"}, name


def test_attributes_of_the_engine() -> None:
    """Only `_scrapy.py` uses undocumented attributes of a crawler's engine."""
    used = {
        (name, node.attr)
        for name in MODULES.keys() - {"_scrapy"}
        for node in nodes(name)
        if isinstance(node, ast.Attribute) and ast.unparse(node.value).endswith("engine")
    }
    assert {attribute for _, attribute in used} <= {"close_spider_async", "download_async"}
