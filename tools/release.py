"""Build the package, and look at it as the package index, an installer and a user's type checkers
do.

Prints a line a check, and exits with 1 when one has failed. `--publish` wants the repository's
address as well, and the version of the tag in the environment variable RELEASE_TAG. What was built
is in dist/ then.
"""

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from email.parser import BytesParser
from pathlib import Path
from typing import Any
from zipfile import ZipFile

from tools.check_docs import FENCE, LINK
from tools.matrix import interpreters
from tools.repository import ROOT, address, is_placeholder

DIST = ROOT / "dist"
TIMEOUT = 600  # seconds for one command; pip may have to fetch Scrapy
COMPLETENESS = 0.99  # the share of names with a type that pyright finds complete
#: All that pyroma may miss: the authors are contributors, who have no address in common.
WITHOUT_ADDRESS = "Your package does not have author-email data."

ROBOTS = "User-agent: *\nDisallow: /private/\n"

#: What a user writes; both type checkers have to find the types of the package in it, and nothing
#: wrong.
USER = """
import scrapy
from scrapy.crawler import Crawler
from scrapy_robots_rfc import Decision, Reason, RobotsDisallowed, RobotsTxt, robots_service


async def closed(crawler: Crawler, url: str) -> bool:
    policy = await robots_service(crawler).robots(url)
    return not policy.decide(url).allowed


def line(decision: Decision) -> int | None:
    return decision.rule.line if decision.reason is Reason.RULE and decision.rule else None


def why(error: RobotsDisallowed) -> str:
    return error.why


class Mine(scrapy.Spider):
    name = "mine"


robots = RobotsTxt.parse(b"User-agent: *")
allowed: bool = robots.decide("https://example.com/", ["mine"]).allowed
"""
#: The same with mistakes that only somebody who has the types can find, one a line.
WRONG = """
from scrapy_robots_rfc import Decision, RobotsTxt

number: int = RobotsTxt.parse(b"").decide("https://example.com/", ["mine"]).allowed.nothing
text: str = Decision(True, "rule")
"""


class Failed(Exception):  # noqa: N818 - a check that failed is no error of this program
    """A check has failed; the text says why."""


def run(*command: str | Path, cwd: Path = ROOT, env: dict[str, str] | None = None) -> str:
    """Run a command and return all that it prints.

    :raises Failed: it ended with another status than 0.
    """
    environment = {**os.environ, **(env or {})}
    done = subprocess.run(
        command,
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )
    if done.returncode:
        raise Failed(
            f"{Path(command[0]).name} ended with {done.returncode}:\n"
            f"{done.stdout}{done.stderr}".strip()
        )
    return done.stdout + done.stderr


def tool(name: str) -> Path:
    """Return the path of a tool of this environment."""
    return Path(sys.executable).with_name(name)


def built(folder: Path) -> str:
    """Build sdist and wheel twice, in new environments, and put them into dist/ if they are
    equal.
    """
    names = ("first", "second")
    for name in names:
        run(sys.executable, "-m", "build", "--outdir", folder / name)
    digests = [
        {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in (folder / n).iterdir()}
        for n in names
    ]
    if digests[0] != digests[1]:
        raise Failed(f"two builds differ: {digests}")
    shutil.rmtree(DIST, ignore_errors=True)
    shutil.copytree(folder / "first", DIST)
    return "twice, with the same result: " + ", ".join(sorted(digests[0]))


def wheel() -> Path:
    """Return the path of the wheel in dist/."""
    [found] = DIST.glob("*.whl")
    return found


def uploadable(_: Path) -> str:
    """See that the package index would take it: metadata, form, and the README with its links."""
    run(tool("twine"), "check", "--strict", *DIST.iterdir())
    run(tool("check-wheel-contents"), wheel())
    run(tool("validate-pyproject"), ROOT / "pyproject.toml")
    with ZipFile(wheel()) as archive:
        [name] = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        readme = str(BytesParser().parsebytes(archive.read(name)).get_payload())
    links = LINK.findall(FENCE.sub("", readme))
    if lost := [link for link in links if not re.fullmatch(r"https://[\w.-]+(/[^\s]*)?", link)]:
        raise Failed(f"links of the README that lead nowhere on the package index: {lost}")
    return (
        "twine --strict, check-wheel-contents, validate-pyproject; the README renders,"
        f" {len(links)} absolute links"
    )


def rated(_: Path) -> str:
    """See that pyroma misses the address of an author, and nothing else."""
    [sdist] = DIST.glob("*.tar.gz")
    parts = re.split(r"^-{20,}\n", run(tool("pyroma"), "--min", "8", sdist), flags=re.MULTILINE)
    missed = [line for line in parts[2].splitlines() if line.strip()]
    if missed not in ([], [WITHOUT_ADDRESS]):
        raise Failed(f"pyroma: {missed}")
    return "misses nothing but an author's e-mail"


def installed(folder: Path) -> str:
    """Install the wheel into an empty environment of each Python, and run a command of it there."""
    found = interpreters()
    with ThreadPoolExecutor(2) as pool:
        versions = pool.map(lambda item: used(folder, *item), found.items())
        return "works in an empty environment of Python " + ", ".join(versions)


def used(folder: Path, version: tuple[int, int], python: str) -> str:
    """Do it for one Python; return its version."""
    name = "{}.{}".format(*version)
    home = folder / f"python{name}"
    run(python, "-m", "venv", home)
    run(
        home / "bin/python",
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        wheel(),
    )
    run(home / "bin/python", "-m", "pip", "check")
    (home / "robots.txt").write_text(ROBOTS, encoding="utf-8")
    scrapy = home / "bin/scrapy"
    told = run(
        scrapy, "robots", "check", "https://example.com/press/", "--robots", "robots.txt", cwd=home
    )
    if not told.startswith("allowed "):
        raise Failed(f"Python {name}: scrapy robots check says: {told}")
    return name


def typed(folder: Path) -> str:
    """Check a user's file with both type checkers, and see that they find the mistakes of a
    wrong one.
    """
    home = next(iter(sorted(folder.glob("python3.*"))))
    files = {"user.py": USER, "wrong.py": WRONG}
    for name, text in files.items():
        (home / name).write_text(text, encoding="utf-8")
    checkers: dict[str, Callable[[str], str]] = {
        "mypy": lambda name: run(
            tool("mypy"), "--strict", "--python-executable", home / "bin/python", name, cwd=home
        ),
        "pyright": lambda name: run(
            tool("pyright"), "--pythonpath", home / "bin/python", name, cwd=home
        ),
    }
    for checker, check in checkers.items():
        check("user.py")
        try:
            check("wrong.py")
        except Failed as error:
            wrong = {int(line) for line in re.findall(r"wrong\.py:(\d+):.*error", str(error))}
            if wrong != {4, 5}:
                raise Failed(
                    f"{checker} finds mistakes in lines {wrong}, not in 4 and 5"
                ) from error
        else:
            raise Failed(
                f"{checker} finds no mistake where there are two: it does not see the types"
            )
    return "a user's file passes mypy --strict and pyright; both find the mistakes in a wrong one"


def complete(folder: Path) -> str:
    """See how much of what the package has in public has a type that every type checker reads
    alike.
    """
    home = next(iter(sorted(folder.glob("python3.*"))))
    path = {"VIRTUAL_ENV": str(home), "PATH": f"{home / 'bin'}{os.pathsep}{os.environ['PATH']}"}
    command = [
        str(tool("pyright")),
        "--verifytypes",
        "scrapy_robots_rfc",
        "--ignoreexternal",
        "--outputjson",
    ]
    environment = {**os.environ, **path}
    done = subprocess.run(
        command,
        cwd=home,
        env=environment,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )
    report = json.loads(done.stdout[done.stdout.index("{") :])["typeCompleteness"]
    share = f"{report['completenessScore']:.1%} of the types are complete"
    if report["completenessScore"] < COMPLETENESS:
        found = [
            item
            for symbol in report["symbols"]
            for item in symbol["diagnostics"]
            if item["severity"] == "error"
        ]
        raise Failed("\n".join([share, *sorted({place(item) for item in found})]))
    return share


def place(item: dict[str, Any]) -> str:
    """Return where a diagnostic of pyright's is, and the first line of what it says."""
    line = item.get("range", {}).get("start", {}).get("line", -1) + 1
    return (
        f"{item['file'].rpartition('site-packages/')[2]}:{line}: {item['message'].splitlines()[0]}"
    )


def publishable() -> Iterator[str]:
    """Yield what stands between the tree and a release."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"][
        "version"
    ]
    if is_placeholder():
        yield f"the repository's address is a placeholder: {address()} (pyproject.toml)"
    if re.search(
        rf"^## {re.escape(version)}, not released",
        (ROOT / "CHANGELOG.md").read_text(),
        re.MULTILINE,
    ):
        yield f"CHANGELOG.md says that {version} is not released yet"
    if os.environ.get("RELEASE_TAG", f"v{version}") != f"v{version}":
        yield f"the tag is {os.environ['RELEASE_TAG']}, and the version {version}"


CHECKS = (built, uploadable, rated, installed, typed, complete)


def main() -> int:
    """Run every check and return the exit code."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument(
        "--publish", action="store_true", help="fail where the tree is not ready to be published"
    )
    publish = options.parse_args().publish
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        for check in CHECKS:
            try:
                print(f"{check.__name__:12} {check(Path(folder))}", flush=True)
            except (Failed, subprocess.TimeoutExpired) as error:
                failed = True
                print(f"{check.__name__:12} FAILED: {error}", flush=True)
                if check is built:
                    break
    for text in publishable():
        print(f"{'FAILED' if publish else 'to be done':12} {text}")
        failed = failed or publish
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
