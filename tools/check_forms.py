"""Check the form of the files that other services read about the project: GitHub's, Read the Docs',
a citation's.

Their schemas come with check-jsonschema, so nothing is fetched. Beyond them: workflows run targets
of the Makefile, the repository's address stands in one place, and versions agree.
"""

import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

from tools.check_shape import tracked
from tools.repository import ROOT, address

#: Schema -> the files that it describes.
FORMS = {
    "citation-file-format": "CITATION.cff",
    "dependabot": ".github/dependabot.yml",
    "github-issue-config": ".github/ISSUE_TEMPLATE/config.yml",
    "github-issue-forms": ".github/ISSUE_TEMPLATE/[!c]*.yml",
    "github-workflows": ".github/workflows/*.yml",
    "readthedocs": ".readthedocs.yaml",
}
ADDRESS = re.compile(r"https://github\.com/[\w.-]+/[\w.-]+")
_RUN = re.compile(r"^ *(?:- )?run:(.*)$", re.MULTILINE)
_INSTALL = re.compile(
    r"sudo apt-get update -qq && sudo apt-get install -qq --no-install-recommends [\w. -]+"
)


def forms() -> Iterator[str]:
    """Yield what the schemas have against the files."""
    with ThreadPoolExecutor(2) as pool:  # most of the time goes into starting the processes
        yield from filter(None, pool.map(form, FORMS.items()))


def form(item: tuple[str, str]) -> str:
    """Return what one schema has against its files; an empty text for nothing."""
    schema, pattern = item
    files = sorted(str(path) for path in ROOT.glob(pattern))
    if not files:
        return f"{pattern}: there is no such file"
    command = [
        sys.executable,
        "-m",
        "check_jsonschema",
        "--builtin-schema",
        f"vendor.{schema}",
        *files,
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return (done.stdout + done.stderr).strip() if done.returncode else ""


def commands() -> Iterator[str]:
    """Yield the commands of workflows that are neither a target of the Makefile nor the
    installation of packages.
    """
    targets = set(
        re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    )
    for path in sorted(ROOT.glob(".github/workflows/*.yml")):
        for command in _RUN.findall(path.read_text(encoding="utf-8")):
            called = re.fullmatch(
                r" make ([\w-]+)(?: [A-Z]+=\S+| [A-Z]+=\S*\$\{\{ [\w.]+ \}\}| -j\d)*", command
            )
            if not (called and called[1] in targets) and not _INSTALL.fullmatch(command.strip()):
                yield f"{path.relative_to(ROOT)}: runs{command}, which is no target of the Makefile"


def addresses() -> Iterator[str]:
    """Yield what is wrong with the repository's address.

    Its form, or that it stands somewhere else, too.
    """
    urls = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["urls"]
    if not ADDRESS.fullmatch(address()):
        yield (
            f"pyproject.toml: the Repository is {address()}, which is not"
            " https://github.com/ACCOUNT/NAME"
        )
    for name, url in urls.items():
        if name == "Documentation":  # the site that .readthedocs.yaml builds
            if not re.fullmatch(r"https://[\w-]+\.readthedocs\.io/", url):
                yield f"pyproject.toml: {name} is {url}, which is no site of Read the Docs"
        elif url != address() and not url.startswith(f"{address()}/"):
            yield f"pyproject.toml: {name} is {url}, which is not below {address()}"
    for path in tracked():
        if path.name != "pyproject.toml" and address().encode() in path.read_bytes():
            yield (
                f"{path.relative_to(ROOT)}: has the repository's address, which stands in"
                " pyproject.toml alone"
            )


def versions() -> Iterator[str]:
    """Yield the places whose version is not the package's."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"][
        "version"
    ]
    for name, line in (
        ("CITATION.cff", rf"^version: {version}$"),
        ("CHANGELOG.md", rf"^## {version}\b"),
    ):
        if not re.search(
            line.replace(".", r"\."), (ROOT / name).read_text(encoding="utf-8"), re.MULTILINE
        ):
            yield f"{name}: does not name version {version}"


def main() -> int:
    """Check all of it and return the exit code."""
    found = [*forms(), *commands(), *addresses(), *versions()]
    print("\n".join(found) or "forms: nothing found")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
