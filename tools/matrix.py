"""Run the tests on every CPython from 3.11, and with the oldest and the newest dependencies.

Each row has its own environment in .venv-matrix/, which is made again when pyproject.toml or
oldest.txt change. The row `newest` has pre-releases of Scrapy and Twisted. The row `development`
has Scrapy from its repository: it may fail, and is skipped if the repository cannot be reached.
`--list` lists the rows. `--ends` runs only the oldest dependencies and the newest interpreter, with
one reactor and fewer tests.
"""

import argparse
import hashlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HOME = ROOT / ".venv-matrix"
OLDEST = ROOT / "tools" / "oldest.txt"
SUPPORTED = (3, 11)
PARALLEL_ROWS = 3
TIMEOUT = 1800  # seconds for one command

_WORKERS = ("-n", "3")
# Laws of the core are the same everywhere, and the bench is for one version.
_NOWHERE = ("--ignore=tests/property", "--ignore=tests/bench")
SUITE = (*_WORKERS, "-m", "not wheel and not once", *_NOWHERE)
OTHER_REACTOR = (*_WORKERS, "--reactor=default", "-m", "reactor")
# With --ends: `make test` runs these in both rows' place.
_NOT_AT_ENDS = ("tests/example", "tests/test_upstream.py")
# These depend on the version of Scrapy, and the oldest row has another one.
_NOT_NEWEST = (
    "tests/commands",
    "tests/reporting",
    "tests/scheduling",
    "tests/test_missing_names.py",
)
# These depend on no other package.
_NOT_OLDEST = ("tests/core", "tests/policy", "tests/test_cases.py", "tests/test_reference.py")
DEVELOPMENT = "https://github.com/scrapy/scrapy"
_PROBE = (
    "import ensurepip, platform, sys, venv;"
    "print(platform.python_implementation(), *sys.version_info[:2])"
)


@dataclass(frozen=True, slots=True)
class Row:
    """An environment and the runs of the tests in it.

    :param upgrades: arguments of pip for what is upgraded before each run.
    """

    name: str
    python: str
    runs: tuple[tuple[str, ...], ...]
    constraints: Path | None = None
    upgrades: tuple[str, ...] = ()
    may_fail: bool = False


def interpreters() -> dict[tuple[int, int], str]:
    """Return the path of a CPython for each version that works here, oldest first."""
    folders = [Path(part) for part in os.environ.get("PATH", "").split(os.pathsep) if part]
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    folders += [Path("/usr/local/bin"), Path("/usr/bin"), *sorted(pyenv.glob("versions/*/bin"))]
    found: dict[tuple[int, int], str] = {}
    for folder in folders:
        for path in folder.glob("python3.*"):
            if re.fullmatch(r"python3\.\d+", path.name) and (version := _version(path)):
                found.setdefault(version, str(path))
    return dict(sorted(found.items()))


def _version(path: Path) -> tuple[int, int] | None:
    """Return the version of a supported CPython that can make an environment, or `None`."""
    try:
        done = subprocess.run(
            [path, "-c", _PROBE], capture_output=True, text=True, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    if done.returncode or not done.stdout.startswith("CPython "):
        return None
    major, minor = map(int, done.stdout.split()[1:])
    return (major, minor) if (major, minor) >= SUPPORTED else None


def rows(found: dict[tuple[int, int], str]) -> Iterator[Row]:
    """Yield all rows; `make test` already uses this interpreter."""
    # Old dependencies warn on a newer CPython; in the other rows a warning is an error.
    lenient = ("-W", "default")
    oldest_runs = ((*SUITE, *lenient), (*OTHER_REACTOR, *lenient))
    yield Row("oldest", found[min(found)], oldest_runs, OLDEST)
    for (major, minor), python in found.items():
        if (major, minor) != sys.version_info[:2]:
            yield Row(f"python{major}.{minor}", python, (SUITE,))
    newest = found[max(found)]
    yield Row("newest", newest, (SUITE,), upgrades=("--pre", "Scrapy", "Twisted"))
    development = (f"git+{DEVELOPMENT}",)
    yield Row("development", newest, ((*SUITE, *lenient),), None, development, may_fail=True)


def at_ends(chosen: list[Row]) -> list[Row]:
    """Return the oldest row and the newest interpreter, with one run of fewer tests each."""
    newest = [row for row in chosen if row.name.startswith("python")][-1:]
    left_out = [(chosen[0], _NOT_OLDEST), *((row, _NOT_NEWEST) for row in newest)]
    return [
        replace(row, runs=((*row.runs[0], *(f"--ignore={p}" for p in (*_NOT_AT_ENDS, *paths))),))
        for row, paths in left_out
    ]


def prepare(row: Row, log: Path) -> Path:
    """Make the environment of a row if something has changed, and return its interpreter."""
    home = HOME / row.name
    python, ready = home / "bin" / "python", home / ".ready"
    files = [path.read_bytes() for path in (ROOT / "pyproject.toml", row.constraints) if path]
    digest = hashlib.sha256(b"\0".join([row.python.encode(), *files])).hexdigest()
    install = [str(python), "-m", "pip", "install", "-qq", "--disable-pip-version-check"]
    if not (python.exists() and ready.exists() and ready.read_text() == digest):
        pinned = ["--constraint", str(row.constraints)] if row.constraints else []
        call([row.python, "-m", "venv", "--clear", str(home)], log)
        call([*install, "pip>=25.1"], log)  # the first version that knows groups
        call([*install, *pinned, "--group", "test", "--editable", ".[archive,fleet]"], log)
        ready.write_text(digest)
    if row.upgrades:
        call([*install, "--upgrade", *row.upgrades], log)
    return python


def call(command: list[str], log: Path) -> None:
    """Run a command, and append its output to a log; raise if it fails."""
    with log.open("ab") as out:
        subprocess.run(
            command,
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            timeout=TIMEOUT,
            check=True,
            env={**os.environ, "GIT_TERMINAL_PROMPT": "0"},
        )


def run(row: Row) -> bool:
    """Run a row, print how it ended, and return whether the matrix may pass."""
    logs = [HOME / f"{row.name}-{number}.log" for number in range(len(row.runs))]
    for log in logs:
        log.write_bytes(b"")
    try:
        if row.may_fail:
            call(["git", "ls-remote", "--exit-code", DEVELOPMENT, "HEAD"], logs[0])
        python = prepare(row, logs[0])
    except (OSError, subprocess.SubprocessError) as error:
        text = "skipped" if row.may_fail else "FAILED"
        print(f"{row.name}: {text} ({error})\n{logs[0].read_text(errors='replace')}", flush=True)
        return row.may_fail
    with ThreadPoolExecutor(len(logs)) as pool:
        ended = pool.map(lambda arguments, log: suite(row, python, arguments, log), row.runs, logs)
        return all([*ended]) or row.may_fail


def suite(row: Row, python: Path, arguments: tuple[str, ...], log: Path) -> bool:
    """Run the tests once, print how they ended, and return whether they passed."""
    name = f"{row.name} [{' '.join(arguments)}]"
    cache = f"cache_dir={log.with_suffix('.cache')}"  # runs beside each other need their own
    try:
        call([str(python), "-m", "pytest", "-q", "-o", cache, *arguments], log)
    except subprocess.SubprocessError as error:
        print(f"{name}: FAILED ({error})\n{log.read_text(errors='replace')}", flush=True)
        return False
    print(f"{name}: {log.read_text(errors='replace').splitlines()[-1]}", flush=True)
    return True


def main() -> int:
    """Run the rows and return the exit code."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--list", action="store_true", help="list the rows and run nothing")
    options.add_argument("--ends", action="store_true", help="run only two short rows")
    options.add_argument("names", nargs="*", metavar="row", help="run only these rows")
    arguments = options.parse_args()
    names = arguments.names
    chosen = [row for row in rows(interpreters()) if not names or row.name in names]
    if arguments.ends:
        chosen = at_ends(chosen)
    if arguments.list:
        print(*(f"{row.name} {row.python}" for row in chosen), sep="\n")
        return 0
    HOME.mkdir(exist_ok=True)
    with ThreadPoolExecutor(PARALLEL_ROWS) as pool:
        ended = list(pool.map(run, chosen))
    return 0 if ended and all(ended) else 1


if __name__ == "__main__":
    sys.exit(main())
