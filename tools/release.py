"""Check the built package in dist/, as a part of `make release-check`.

The exit code is 1 if a check fails. With --publish, it is also 1 if something remains to be done
before a release; the environment variable RELEASE_TAG has the tag of the release.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path

from tools.matrix import interpreters
from tools.repository import ROOT, address

TIMEOUT = 600  # seconds for one command; pip may have to download Scrapy
COMPLETENESS = 0.99  # smallest share of the public names that have complete types
ROBOTS = "User-agent: *\nDisallow: /private/\n"


class CheckFailed(Exception):  # noqa: N818 - it is not an error of this program
    """A check failed. The text says why."""


def run(*command: str | Path, cwd: Path = ROOT, may_fail: bool = False) -> str:
    """Run a command and return its output."""
    done = subprocess.run(
        command, cwd=cwd, capture_output=True, text=True, timeout=TIMEOUT, check=False
    )
    output = done.stdout + done.stderr
    if done.returncode and not may_fail:
        raise CheckFailed(f"{Path(command[0]).name} ended with {done.returncode}:\n{output}")
    return output


def installs(folder: Path) -> str:
    """Install the wheel into an empty environment of each Python, and use it."""
    [wheel] = (ROOT / "dist").glob("*.whl")
    names = []
    for (major, minor), python in interpreters().items():
        names.append(f"{major}.{minor}")
        home = folder / f"python{names[-1]}"
        run(python, "-m", "venv", home)
        pip = (home / "bin/python", "-m", "pip", "--quiet", "--disable-pip-version-check")
        run(*pip, "install", wheel)
        run(*pip, "check")
        (home / "robots.txt").write_text(ROBOTS, encoding="utf-8")
        check = ("robots", "check", "https://example.com/press/", "--robots", "robots.txt")
        output = run(home / "bin/scrapy", *check, cwd=home)
        if not output.startswith("allowed "):
            raise CheckFailed(f"Python {names[-1]}: scrapy robots check prints: {output}")
    return f"works in an empty environment of Python {', '.join(names)}"


def has_types(folder: Path) -> str:
    """Check that pyright finds the types of the installed package complete."""
    home = min(folder.glob("python3.*"))
    path = f"PATH={home / 'bin'}{os.pathsep}{os.environ['PATH']}"
    pyright = Path(sys.executable).with_name("pyright")
    verify = ("--verifytypes", "scrapy_robots_rfc", "--ignoreexternal", "--outputjson")
    command = ("env", f"VIRTUAL_ENV={home}", path, pyright, *verify)
    output = run(*command, cwd=home, may_fail=True)
    report = json.loads(output[output.index("{") : output.rindex("}") + 1])["typeCompleteness"]
    share = report["completenessScore"]
    if share < COMPLETENESS:
        raise CheckFailed(f"only {share:.1%} of the types are complete (pyright --verifytypes)")
    return f"{share:.1%} of the types are complete"


def unfinished() -> Iterator[str]:
    """Yield what has to be done before a release."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    version = project["version"]
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    if "/OWNER/" in address():
        yield f"the address of the repository is a placeholder: {address()} (pyproject.toml)"
    if not re.search(rf"^## {re.escape(version)}, (?!not released)", changes, re.MULTILINE):
        yield f"CHANGELOG.md has no date for version {version}"
    if f"version: {version}\n" not in citation:
        yield f"CITATION.cff has another version than {version}"
    tag = os.environ.get("RELEASE_TAG", f"v{version}")
    if tag != f"v{version}":
        yield f"the tag is {tag}, but the version is {version}"


def main() -> int:
    """Run every check and return the exit code."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--publish", action="store_true", help="fail if something is unfinished")
    is_publishing = options.parse_args().publish
    has_failed = False
    with tempfile.TemporaryDirectory() as folder:
        for check in (installs, has_types):
            try:
                print(f"{check.__name__:12} {check(Path(folder))}", flush=True)
            except (CheckFailed, subprocess.TimeoutExpired) as error:
                has_failed = True
                print(f"{check.__name__:12} FAILED: {error}", flush=True)
    for text in unfinished():
        print(f"{'FAILED' if is_publishing else 'to do':12} {text}")
        has_failed |= is_publishing
    return 1 if has_failed else 0


if __name__ == "__main__":
    sys.exit(main())
