"""The modules that each part of the package loads."""

from __future__ import annotations

import json
import subprocess

import pytest
from scrapy.utils.misc import load_object

import scrapy_robots_rfc
from tests.support.processes import python

#: Modules that the parser alone does not need.
_NOT_FOR_A_PARSER = (
    "addon",
    "cache",
    "commands",
    "fetching",
    "middleware",
    "reporting",
    "scheduling",
)


#: Steps in one process, from the smallest to the largest. The tests assert only that modules are
#: missing, so an earlier step cannot hide anything.
STEPS = {
    "core": "import scrapy_robots_rfc.core.robotstxt",
    "names": "from scrapy_robots_rfc import Decision, Reason, RobotsTxt, Rule, RuleKind",
    "parser": "import scrapy_robots_rfc\nscrapy_robots_rfc.RfcRobotParser",
}


@pytest.fixture(scope="module")
def loaded() -> dict[str, set[str]]:
    """Return the modules that a new process has loaded after each step."""
    code = "\n".join(
        [
            "import json, sys\nbefore = set(sys.modules)",  # coverage.py loads some itself
            *(
                f"{step}\nprint(json.dumps([*set(sys.modules).difference(before)]))"
                for step in STEPS.values()
            ),
        ]
    )
    done = python("-c", code)
    return {
        step: set(json.loads(line))
        for step, line in zip(STEPS, done.stdout.splitlines(), strict=True)
    }


def below(modules: set[str], *names: str) -> set[str]:
    """Return the modules that have one of these names, or are in a package with such a name."""
    return {
        module for module in modules if any(f"{module}.".startswith(f"{name}.") for name in names)
    }


def test_core(loaded: dict[str, set[str]]) -> None:
    """Parsing a file loads neither Scrapy nor Twisted, and nothing of the package but the core."""
    modules = loaded["core"]
    assert below(modules, "scrapy", "twisted", "asyncio", "logging") == set()
    assert below(modules, "scrapy_robots_rfc") == below(modules, "scrapy_robots_rfc.core") | {
        "scrapy_robots_rfc"
    }


def test_names_of_the_core(loaded: dict[str, set[str]]) -> None:
    """The public names of the core load neither Scrapy nor Twisted."""
    assert below(loaded["names"], "scrapy", "twisted") == set()


def test_parser(loaded: dict[str, set[str]]) -> None:
    """Under Scrapy's own middleware, the parser loads nothing that fetches, stores or reports."""
    modules = loaded["parser"]
    assert below(modules, "scrapy_robots_rfc.parser")
    assert below(modules, *(f"scrapy_robots_rfc.{name}" for name in _NOT_FOR_A_PARSER)) == set()
    assert below(modules, "sqlite3", "redis") == set()


@pytest.mark.parametrize("name", scrapy_robots_rfc.__all__)
def test_public_names(name: str) -> None:
    """A public name is an attribute, is listed, and can be loaded by its path."""
    value = getattr(scrapy_robots_rfc, name)
    assert value is load_object(f"scrapy_robots_rfc.{name}")
    assert value.__module__.startswith("scrapy_robots_rfc.")
    assert name in dir(scrapy_robots_rfc)


def scrapy(*arguments: str, before: str = "") -> subprocess.CompletedProcess[str]:
    """Run Scrapy's command line in a new process that prints our loaded modules to stderr."""
    code = f"""\
import atexit, sys
from scrapy.cmdline import execute
{before}
ours = lambda: [name for name in sys.modules if name.startswith("scrapy_robots_rfc")]
atexit.register(lambda: print(*ours(), file=sys.stderr))
execute(["scrapy", *{list(arguments)!r}])
"""
    return python("-c", code)


def test_other_scrapy_commands_load_only_the_entry_point() -> None:
    """Another `scrapy` command loads the lazy package and the module of our entry point only."""
    done = scrapy("version")
    assert done.returncode == 0
    assert done.stderr.split() == [
        "scrapy_robots_rfc",
        "scrapy_robots_rfc.commands",
        "scrapy_robots_rfc.commands.robots",
    ]


def test_an_import_error_of_ours_does_not_break_other_scrapy_commands() -> None:
    """If our package cannot be imported, `scrapy version` works and `scrapy robots` fails."""
    broken = "sys.modules['scrapy_robots_rfc.core'] = None"
    done = scrapy("version", before=broken)
    assert (done.returncode, done.stdout[:7]) == (0, "Scrapy ")
    failed = scrapy("robots", "check", "http://a.example/", before=broken)
    assert failed.returncode == 1
    assert "ModuleNotFoundError: " in failed.stderr


def test_other_names() -> None:
    """A name that does not exist is an error, so a mistyped path in a setting is one, too."""
    with pytest.raises(AttributeError, match="module 'scrapy_robots_rfc' has no attribute 'Adon'"):
        scrapy_robots_rfc.Adon  # type: ignore[attr-defined]  # noqa: B018
    with pytest.raises(ImportError):
        from scrapy_robots_rfc import Adon  # type: ignore[attr-defined]  # noqa: F401, PLC0415
