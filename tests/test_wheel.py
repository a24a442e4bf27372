"""The wheel as a user gets it.

Built from the tree, installed in an empty environment, used without the tree.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

from tools.check_docs import FENCE, LINK
from tools.repository import address

ROOT = Path(__file__).resolve().parent.parent
CI = os.environ.get("CI") == "true"
TIMEOUT = 300  # seconds for one command; pip may have to fetch Scrapy

#: What a new user writes: a spider of their own, and one line. The site is their own, too.
PROGRAM = """
import sys, threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import scrapy
from scrapy.crawler import AsyncCrawlerProcess

asked = []


class Site(BaseHTTPRequestHandler):
    def do_GET(self):
        asked.append(self.path)
        body = b"User-agent: *\\nDisallow: /private\\n" if self.path == "/robots.txt" else b"page"
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Site)
threading.Thread(target=server.serve_forever, daemon=True).start()
base = f"http://127.0.0.1:{server.server_port}"


class Mine(scrapy.Spider):
    name = "mine"
    start_urls = [f"{base}/public", f"{base}/private"]

    def parse(self, response):
        pass


addons = {"scrapy_robots_rfc.Addon": 500}
process = AsyncCrawlerProcess({"ADDONS": addons, "TELNETCONSOLE_ENABLED": False})
process.crawl(Mine)
process.start()
server.shutdown()
import scrapy_robots_rfc
print("package", scrapy_robots_rfc.__file__)
print("asked", *sorted(asked))
"""


def run(*command: str | Path, cwd: Path) -> str:
    """Run a command outside the tree and return all that it prints; a failure shows it."""
    done = subprocess.run(
        command, cwd=cwd, capture_output=True, text=True, timeout=TIMEOUT, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of the tree as it stands.

    In CI pip builds it with what pyproject.toml names for that, and nothing else (`make
    release-check` does so, too). Elsewhere, to save time, it builds with the test's own
    environment.
    """
    out = tmp_path_factory.mktemp("wheel")
    borrowed = () if CI else ("--no-build-isolation",)
    run(
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        *borrowed,
        "--wheel-dir",
        out,
        ROOT,
        cwd=out,
    )
    (built,) = out.glob("*.whl")
    return built


@pytest.mark.wheel
def test_the_wheel_holds_the_package_and_nothing_else(wheel: Path) -> None:
    """The wheel has every module, the parts of a page, licence and marker of types, and no test,
    tool or example.
    """
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        [printed] = [
            archive.read(name).decode() for name in names if name.endswith(".dist-info/METADATA")
        ]
    package = {
        path.relative_to(ROOT).as_posix()
        for suffix in (
            "py",
            "html",
            "css",
            "js",
        )  # the last three are the page of `scrapy robots report`
        for path in (ROOT / "scrapy_robots_rfc").rglob(f"*.{suffix}")
    }
    metadata = {name for name in names if ".dist-info/" in name}
    assert names - metadata == package | {"scrapy_robots_rfc/py.typed"}
    assert any(name.endswith("/licenses/LICENSE") for name in metadata)
    needed = [
        line
        for line in printed.splitlines()
        if line.startswith("Requires-Dist: ") and "extra ==" not in line
    ]
    assert needed == ["Requires-Dist: scrapy>=2.15"]


@pytest.mark.wheel
def test_links_of_the_readme_are_absolute(wheel: Path) -> None:
    """The README that the package index shows leads nowhere but to other sites, and to files of
    the repository.
    """
    with zipfile.ZipFile(wheel) as archive:
        [name] = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        _, _, readme = archive.read(name).decode().partition("\n\n")
    links = LINK.findall(FENCE.sub("", readme))
    assert f"{address()}/blob/main/CHANGELOG.md" in links
    assert [link for link in links if not link.startswith("https://")] == []


def environment(wheel: Path, folder: Path) -> Path:
    """Make an environment with the wheel, and return its interpreter.

    In CI it has nothing but the wheel and what pip fetches for it. Elsewhere, to save time, it
    borrows all other packages of the test's own environment; this project is not among them, since
    a borrowed folder's `.pth` files are not read.
    """
    env = folder / "env"
    python = env / "bin" / "python"
    if CI:
        run(sys.executable, "-m", "venv", env, cwd=folder)
        run(python, "-m", "pip", "install", "--quiet", "--no-compile", wheel, cwd=folder)
        return python
    run(sys.executable, "-m", "venv", "--without-pip", env, cwd=folder)
    [packages] = env.glob("lib/python*/site-packages")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(packages)
    (packages / "borrowed.pth").write_text(sysconfig.get_path("purelib"), encoding="utf-8")
    return python


@pytest.mark.wheel
def test_the_wheel_works_where_nothing_else_is(wheel: Path, tmp_path: Path) -> None:
    """In an environment of its own, one line stops a crawl from fetching a disallowed page, and the
    log says why.
    """
    python = environment(wheel, tmp_path)
    (tmp_path / "mine.py").write_text(PROGRAM, encoding="utf-8")
    printed = run(python, "mine.py", cwd=tmp_path)
    assert "asked /public /robots.txt\n" in printed
    assert "Forbidden by robots.txt" in printed
    assert "robots.txt line 2: Disallow: /private" in printed
    assert f"package {tmp_path / 'env'}" in printed
