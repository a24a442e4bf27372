"""Build the package, and check it as the package index, an installer and type checkers do.

Prints a line for each check; the exit code is 1 if one fails. `--publish` also needs the address of
the repository, and the version of the tag in the environment variable RELEASE_TAG. The result is in
dist/.
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
from collections.abc import Iterator
from email.parser import BytesParser
from pathlib import Path
from zipfile import ZipFile

from tools.check_docs import FENCE, LINK
from tools.matrix import interpreters
from tools.repository import ROOT, address, is_placeholder

DIST = ROOT / "dist"
TIMEOUT = 600  # seconds for one command; pip may have to fetch Scrapy
COMPLETENESS = 0.99  # share of the public names whose types pyright finds complete

ROBOTS = "User-agent: *\nDisallow: /private/\n"
#: A user's file: both type checkers have to find nothing wrong.
USER = """
import scrapy
from scrapy.crawler import Crawler
from scrapy_robots_rfc import Decision, Reason, RobotsDisallowed, RobotsTxt, robots_service


async def is_closed(crawler: Crawler, url: str) -> bool:
    policy = await robots_service(crawler).robots(url)
    return not policy.decide(url).allowed


def line(decision: Decision) -> int | None:
    return decision.rule.line if decision.reason is Reason.RULE and decision.rule else None


robots = RobotsTxt.parse(b"User-agent: *")
allowed: bool = robots.decide("https://example.com/", ["mine"]).allowed
"""
#: One mistake on each of the lines 4 and 5, which only the types of the package show.
WRONG = """
from scrapy_robots_rfc import Decision, RobotsTxt

number: int = RobotsTxt.parse(b"").decide("https://example.com/", ["mine"]).allowed.nothing
text: str = Decision(True, "rule")
"""


class Failed(Exception):  # noqa: N818 - a failed check is not an error of this program
    """A check failed; the text says why."""


def run(*command: str | Path, cwd: Path = ROOT, may_fail: bool = False) -> str:
    """Run a command and return its output.

    :raises Failed: it failed, and may not.
    """
    done = subprocess.run(
        command, cwd=cwd, capture_output=True, text=True, timeout=TIMEOUT, check=False
    )
    output = done.stdout + done.stderr
    if done.returncode and not may_fail:
        raise Failed(f"{Path(command[0]).name} ended with {done.returncode}:\n{output}".strip())
    return output


def tool(name: str) -> Path:
    """Return the path of a tool of this environment."""
    return Path(sys.executable).with_name(name)


def builds(folder: Path) -> str:
    """Build sdist and wheel twice, and put them into dist/ if they are equal."""
    digests = []
    for name in ("first", "second"):
        run(sys.executable, "-m", "build", "--outdir", folder / name)
        files = sorted((folder / name).iterdir())
        digests.append({file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in files})
    if digests[0] != digests[1]:
        raise Failed(f"two builds differ: {digests}")
    shutil.rmtree(DIST, ignore_errors=True)
    shutil.copytree(folder / "first", DIST)
    return f"twice, with the same result: {', '.join(digests[0])}"


def wheel() -> Path:
    """Return the path of the wheel in dist/."""
    [path] = DIST.glob("*.whl")
    return path


def uploads(_: Path) -> str:
    """Check metadata and form, and that the links of the README are absolute."""
    run(tool("twine"), "check", "--strict", *DIST.iterdir())
    run(tool("check-wheel-contents"), wheel())
    run(tool("validate-pyproject"), ROOT / "pyproject.toml")
    with ZipFile(wheel()) as archive:
        [name] = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        readme = str(BytesParser().parsebytes(archive.read(name)).get_payload())
    links = LINK.findall(FENCE.sub("", readme))
    if relative := [link for link in links if not link.startswith("https://")]:
        raise Failed(f"links of the README that lead nowhere on the package index: {relative}")
    return f"twine, check-wheel-contents, validate-pyproject; {len(links)} absolute links"


def installs(folder: Path) -> str:
    """Install the wheel into an empty environment of each Python, and use it."""
    names = []
    for (major, minor), python in interpreters().items():
        names.append(f"{major}.{minor}")
        home = folder / f"python{names[-1]}"
        run(python, "-m", "venv", home)
        pip = (home / "bin/python", "-m", "pip", "--quiet", "--disable-pip-version-check")
        run(*pip, "install", wheel())
        run(*pip, "check")
        (home / "robots.txt").write_text(ROBOTS, encoding="utf-8")
        check = ("robots", "check", "https://example.com/press/", "--robots", "robots.txt")
        output = run(home / "bin/scrapy", *check, cwd=home)
        if not output.startswith("allowed "):
            raise Failed(f"Python {names[-1]}: scrapy robots check prints: {output}")
    return f"works in an empty environment of Python {', '.join(names)}"


def has_types(folder: Path) -> str:
    """Check that both type checkers see the types, and that pyright finds them complete."""
    home = min(folder.glob("python3.*"))
    (home / "user.py").write_text(USER, encoding="utf-8")
    (home / "wrong.py").write_text(WRONG, encoding="utf-8")
    python = home / "bin/python"
    checkers = {
        "mypy": (tool("mypy"), "--strict", "--python-executable", python),
        "pyright": (tool("pyright"), "--pythonpath", python),
    }
    for name, command in checkers.items():
        run(*command, "user.py", cwd=home)
        output = run(*command, "wrong.py", cwd=home, may_fail=True)
        lines = {int(line) for line in re.findall(r"wrong\.py:(\d+):.*error", output)}
        if lines != {4, 5}:
            raise Failed(f"{name} finds mistakes in lines {lines}, not in 4 and 5")
    verify = ("--verifytypes", "scrapy_robots_rfc", "--ignoreexternal", "--outputjson")
    path = f"PATH={home / 'bin'}{os.pathsep}{os.environ['PATH']}"
    environment = ("env", f"VIRTUAL_ENV={home}", path)
    output = run(*environment, tool("pyright"), *verify, cwd=home, may_fail=True)
    report = json.loads(output[output.index("{") : output.rindex("}") + 1])["typeCompleteness"]
    share = report["completenessScore"]
    if share < COMPLETENESS:
        raise Failed(f"{share:.1%} of the types are complete: pyright --verifytypes lists the rest")
    return f"mypy --strict and pyright; {share:.1%} of the types are complete"


def publishable() -> Iterator[str]:
    """Yield what has to be done before a release."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    version = project["version"]
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    if is_placeholder():
        yield f"the repository's address is a placeholder: {address()} (pyproject.toml)"
    if re.search(rf"^## {re.escape(version)}, not released", changes, re.MULTILINE):
        yield f"CHANGELOG.md says that {version} is not released yet"
    tag = os.environ.get("RELEASE_TAG", f"v{version}")
    if tag != f"v{version}":
        yield f"the tag is {tag}, and the version {version}"


CHECKS = (builds, uploads, installs, has_types)


def main() -> int:
    """Run every check and return the exit code."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--publish", action="store_true", help="fail if something has to be done")
    publish = options.parse_args().publish
    has_failed = False
    with tempfile.TemporaryDirectory() as folder:
        for check in CHECKS:
            try:
                print(f"{check.__name__:12} {check(Path(folder))}", flush=True)
            except (Failed, subprocess.TimeoutExpired) as error:
                has_failed = True
                print(f"{check.__name__:12} FAILED: {error}", flush=True)
                if check is builds:
                    break
    for text in publishable():
        print(f"{'FAILED' if publish else 'to do':12} {text}")
        has_failed |= publish
    return 1 if has_failed else 0


if __name__ == "__main__":
    sys.exit(main())
