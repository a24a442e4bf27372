"""The wheel contains the package and works without the repository.

`make release-check` also installs it in an empty environment on each CPython.
"""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
TIMEOUT = 300  # seconds for one command


def run(*command: str | Path, cwd: Path) -> str:
    """Run a command, which must succeed, and return its output."""
    done = subprocess.run(
        command, cwd=cwd, capture_output=True, text=True, timeout=TIMEOUT, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel with the packages of this environment."""
    out = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    run(*pip, "--wheel-dir", out, ROOT, cwd=out)
    (built,) = out.glob("*.whl")
    return built


@pytest.mark.wheel
def test_contents_of_the_wheel(wheel: Path) -> None:
    """The wheel contains the package, its HTML, the licence and `py.typed`, and needs only Scrapy.

    Its README has absolute links, and upload tools know the version of its metadata.
    """
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        [metadata] = [name for name in names if name.endswith(".dist-info/METADATA")]
        lines = archive.read(metadata).decode().splitlines()
    suffixes = {".py", ".html", ".css", ".js"}
    package = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "scrapy_robots_rfc").rglob("*")
        if path.suffix in suffixes
    }
    other = {name for name in names if ".dist-info/" in name}
    assert names - other == package | {"scrapy_robots_rfc/py.typed"}
    assert any(name.endswith("/licenses/LICENSE") for name in other)
    assert lines[0] == "Metadata-Version: 2.4"
    links = re.findall(r"\]\(([^)]+)\)", "\n".join(lines))
    assert [link for link in links if not link.startswith("https://")] == []
    needed = [
        line for line in lines if line.startswith("Requires-Dist: ") and "extra ==" not in line
    ]
    assert needed == ["Requires-Dist: queuelib>=1.6.1", "Requires-Dist: scrapy>=2.15"]
