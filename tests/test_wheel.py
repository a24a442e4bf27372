"""The wheel contains the package and works without the repository.

`make release-check` also installs it in an empty environment on each CPython.
"""

from __future__ import annotations

import re
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
TIMEOUT = 300  # seconds for one command

#: A program with a spider, a site, and the line that switches the plugin on.
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

    Its README has absolute links.
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
    links = re.findall(r"\]\(([^)]+)\)", "\n".join(lines))
    assert [link for link in links if not link.startswith("https://")] == []
    needed = [
        line for line in lines if line.startswith("Requires-Dist: ") and "extra ==" not in line
    ]
    assert needed == ["Requires-Dist: queuelib>=1.6.1", "Requires-Dist: scrapy>=2.15"]


@pytest.mark.wheel
def test_the_wheel_works(wheel: Path, tmp_path: Path) -> None:
    """With the wheel in an empty environment, one line makes a crawl obey robots.txt.

    The environment borrows the packages of this one, but not the project, because Python does not
    read the `.pth` files of a borrowed folder.
    """
    python = tmp_path / "env" / "bin" / "python"
    run(sys.executable, "-m", "venv", "--without-pip", tmp_path / "env", cwd=tmp_path)
    [packages] = tmp_path.glob("env/lib/python*/site-packages")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(packages)
    (packages / "borrowed.pth").write_text(sysconfig.get_path("purelib"), encoding="utf-8")
    (tmp_path / "mine.py").write_text(PROGRAM, encoding="utf-8")
    printed = run(python, "mine.py", cwd=tmp_path)
    assert "asked /public /robots.txt\n" in printed
    assert "Forbidden by robots.txt" in printed
    assert "robots.txt line 2: Disallow: /private" in printed
    assert f"package {tmp_path / 'env'}" in printed
