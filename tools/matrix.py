"""Run the test suite on every CPython from 3.11 on this machine, and with the oldest and the newest
dependencies.

Each row is an environment of its own under .venv-matrix/, which stays until pyproject.toml or
oldest.txt change. Three rows run at a time, each with its runs side by side; what a run prints goes
to a file and is shown when it failed. The row `newest` has pre-releases of Scrapy and Twisted, too.
The row `development` has Scrapy as it stands in its repository: it may fail without failing the
matrix, and is skipped where that repository cannot be reached. `python -m tools.matrix --list` only
lists the rows, `--ends` runs two of them, the oldest of everything and the newest interpreter, each
under one reactor: processes of their own crawl under the others. Each leaves some tests out then.
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
AT_A_TIME = 3  # most of their time they wait
TIMEOUT = 1800  # seconds for one command of a row; the whole suite takes a fraction of it

APART = (
    "tests/property",
    "tests/bench",
)  # laws of the core are the same everywhere, and benches are for one version
WORKERS = ("-n", "3")
SUITE = (*WORKERS, "-m", "not wheel and not once", *(f"--ignore={folder}" for folder in APART))
#: What both leave out with `--ends`: `make test` runs it, and it crawls by the code of the package.
BOTH = ("tests/example", "tests/test_upstream.py")
#: What the newest interpreter leaves out, too: what hangs on Scrapy's version, of which the oldest
#: row has another one.
LEFT_OUT = ("tests/commands", "tests/reporting", "tests/scheduling", "tests/test_missing_names.py")
#: What the oldest row leaves out, too: rooms that depend on no other package, under the interpreter
#: of `make test`.
PURE = ("tests/core", "tests/policy", "tests/test_cases.py", "tests/test_reference.py")
OTHER_REACTOR = (*WORKERS, "--reactor=default", "-m", "reactor")

NEWEST = (
    "Scrapy",
    "Twisted",
)  # what a new version of may break us; pre-releases of pytest would be no news
DEVELOPMENT = "https://github.com/scrapy/scrapy"

# What an interpreter says of itself, when it can make an environment.
PROBE = (
    "import ensurepip, platform, sys, venv; print(platform.python_implementation(),"
    " *sys.version_info[:2])"
)


@dataclass(frozen=True, slots=True)
class Row:
    """One environment and the runs of the suite in it."""

    name: str
    python: str
    constraints: Path | None
    runs: tuple[tuple[str, ...], ...]
    #: What is upgraded before each run, as arguments of pip.
    upgrades: tuple[str, ...] = ()
    may_fail: bool = False


def interpreters() -> dict[tuple[int, int], str]:
    """Return the path of one working CPython for each minor version from 3.11, oldest first."""
    folders = [Path(part) for part in os.environ.get("PATH", "").split(os.pathsep) if part]
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    folders += [Path("/usr/local/bin"), Path("/usr/bin"), *sorted(pyenv.glob("versions/*/bin"))]
    found: dict[tuple[int, int], str] = {}
    for folder in folders:
        for path in folder.glob("python3.*"):
            if re.fullmatch(r"python3\.\d+", path.name) and (version := probe(path)):
                found.setdefault(version, str(path))
    return dict(sorted(found.items()))


def probe(path: Path) -> tuple[int, int] | None:
    """Return the version of a CPython that we support and that can make an environment, else
    None.
    """
    try:
        answer = subprocess.run(
            [path, "-c", PROBE], capture_output=True, text=True, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    if answer.returncode or not answer.stdout.startswith("CPython "):
        return None
    major, minor = map(int, answer.stdout.split()[1:])
    return (major, minor) if (major, minor) >= SUPPORTED else None


def rows(found: dict[tuple[int, int], str]) -> Iterator[Row]:
    """Yield the rows: each interpreter that `make test` does not use already, and the oldest of
    everything.
    """
    oldest = min(found)
    # Old dependencies on a newer CPython warn about themselves; the other rows take a warning for
    # an error.
    lenient = ("-W", "default")
    yield Row(
        "oldest", found[oldest], OLDEST, tuple((*run, *lenient) for run in (SUITE, OTHER_REACTOR))
    )
    for version, python in found.items():
        if version != sys.version_info[:2]:
            yield Row("python{}.{}".format(*version), python, None, (SUITE,))
    newest = found[max(found)]
    yield Row("newest", newest, None, (SUITE,), ("--pre", *NEWEST))
    yield Row(
        "development", newest, None, ((*SUITE, *lenient),), (f"git+{DEVELOPMENT}",), may_fail=True
    )


def shortened(row: Row, left_out: tuple[str, ...]) -> Row:
    """Return a row with its first run, less some tests."""
    return replace(
        row, runs=((*row.runs[0], *(f"--ignore={path}" for path in (*BOTH, *left_out))),)
    )


def prepare(row: Row, log: Path) -> Path:
    """Make the row's environment, or reuse it when nothing it depends on has changed, and return
    its interpreter.
    """
    home = HOME / row.name
    python = home / "bin" / "python"
    ready = home / ".ready"
    parts = [
        (ROOT / "pyproject.toml").read_bytes(),
        row.constraints.read_bytes() if row.constraints else b"",
    ]
    digest = hashlib.sha256(b"\0".join([row.python.encode(), *parts])).hexdigest()
    install = [
        str(python),
        "-m",
        "pip",
        "install",
        "-qq",
        "--no-compile",
        "--disable-pip-version-check",
    ]
    if not (python.exists() and ready.exists() and ready.read_text() == digest):
        call([row.python, "-m", "venv", "--clear", str(home)], log)
        pinned = ["--constraint", str(row.constraints)] if row.constraints else []
        call([*install, "pip>=25.1"], log)  # the first version that knows groups
        call([*install, *pinned, "--group", "test", "--editable", ".[archive,fleet]"], log)
        ready.write_text(digest)
    if row.upgrades:
        call([*install, "--upgrade", *row.upgrades], log)
    return python


def reachable(repository: str) -> bool:
    """Return whether a git repository can be asked for its newest commit, without asking anybody
    for a password.
    """
    environment = {**os.environ, "GIT_TERMINAL_PROMPT": "0"}
    command = ["git", "ls-remote", "--exit-code", repository, "HEAD"]
    try:
        return not subprocess.run(
            command, capture_output=True, env=environment, timeout=30, check=False
        ).returncode
    except (OSError, subprocess.TimeoutExpired):
        return False


def call(command: list[str], log: Path) -> None:
    """Run a command in the project's root, its output at the end of the log.

    Raise when it fails.
    """
    with log.open("ab") as out:
        subprocess.run(
            command,
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            timeout=TIMEOUT,
            check=True,
        )


def run(row: Row) -> bool:
    """Run one row, print how it ended, and return whether the matrix may pass."""
    if row.may_fail and not reachable(DEVELOPMENT):
        print(f"{row.name}: skipped, because {DEVELOPMENT} cannot be reached", flush=True)
        return True
    return passed(row) or row.may_fail


def passed(row: Row) -> bool:
    """Run one row, print how it ended, and return whether it passed."""
    logs = [HOME / f"{row.name}-{number}.log" for number in range(len(row.runs))]
    for log in logs:
        log.write_bytes(b"")
    try:
        python = prepare(row, logs[0])
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        print(f"{row.name}: FAILED ({error})\n{logs[0].read_text(errors='replace')}", flush=True)
        return False
    with ThreadPoolExecutor(len(logs)) as pool:
        return all(
            list(
                pool.map(lambda arguments, log: suite(row, python, arguments, log), row.runs, logs)
            )
        )


def suite(row: Row, python: Path, arguments: tuple[str, ...], log: Path) -> bool:
    """Run the suite once in the environment of a row, print how it ended, and return whether it
    passed.
    """
    name = f"{row.name}{' (may fail)' if row.may_fail else ''} [{' '.join(arguments)}]"
    try:
        # A cache of its own: runs side by side must not write one.
        call(
            [
                str(python),
                "-m",
                "pytest",
                "-q",
                "-o",
                f"cache_dir={log.with_suffix('.cache')}",
                *arguments,
            ],
            log,
        )
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        print(f"{name}: FAILED ({error})\n{log.read_text(errors='replace')}", flush=True)
        return False
    closing = re.findall(
        r"^\d+ (?:passed|failed|skipped).* in .*$", log.read_text(errors="replace"), re.MULTILINE
    )
    print(f"{name}: {closing[-1]}", flush=True)
    return True


def main() -> int:
    """Run every row and return the exit code."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--list", action="store_true", help="list the rows and run nothing")
    options.add_argument(
        "--ends", action="store_true", help="only the first and the last row, under one reactor"
    )
    options.add_argument("names", nargs="*", metavar="row", help="run only these rows")
    arguments = options.parse_args()
    chosen = [
        row for row in rows(interpreters()) if not arguments.names or row.name in arguments.names
    ]
    if arguments.ends:
        named = [row for row in chosen if row.name.startswith("python")]
        chosen = [shortened(chosen[0], PURE), *(shortened(row, LEFT_OUT) for row in named[-1:])]
    if arguments.list:
        for row in chosen:
            print(row.name, row.python)
        return 0
    HOME.mkdir(exist_ok=True)
    with ThreadPoolExecutor(AT_A_TIME) as pool:
        ended = list(pool.map(run, chosen))
    return 0 if ended and all(ended) else 1


if __name__ == "__main__":
    sys.exit(main())
