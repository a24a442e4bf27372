"""Draw the pictures of the documents: `python -m tools.pictures`, or with `--check`, compare them.

`report.png` is the HTML report of the demo, taken with Chromium. The file beside it has the digest
of what it shows, so `--check` finds a picture that is older. `comparison.svg` shows the table of
docs/demo.md, which a test compares with `example_project/stock.py`.
"""

import hashlib
import os
import re
import subprocess
import sys
import tempfile
from html import escape
from pathlib import Path

from tools.repository import ROOT

ASSETS = ROOT / "docs" / "assets"
REPORT, COMPARISON = ASSETS / "report.png", ASSETS / "comparison.svg"
DIGEST = ASSETS / "report.png.sha256"
#: Row of the table -> what the site's robots.txt does.
ROWS = {
    "waiting": "is slow, and 20 pages wait",
    "503": "answers 503",
    "redirect": "redirects to another host",
    "https": "differs for http and https",
    "record": "splits a group by a Crawl-delay",
}
_COLUMNS = (255, 390)
_CHROMIUM = (
    "chromium --headless --no-sandbox --disable-gpu --no-first-run --disable-background-networking"
    " --hide-scrollbars --virtual-time-budget=2000 --window-size=1000,840"
)
_STYLE = """
  text { font: 14px system-ui, sans-serif; fill: #1f2328 }
  .title, .number { font-weight: 600 }
  .dim { font-size: 12px; fill: #59636e }
  .card { fill: #fff; stroke: #d1d9e0 }
  .track { fill: #eaeef2 }
  .bad { fill: #cf222e }
  .good { fill: #1a7f37 }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3 }
    .dim { fill: #9198a1 }
    .card { fill: #151b23; stroke: #3d444d }
    .track { fill: #2a313c }
    .bad { fill: #f85149 }
    .good { fill: #3fb950 }
  }
"""


def digest() -> str:
    """Return the digest of the files that the report consists of."""
    page = ROOT / "scrapy_robots_rfc" / "commands" / "report_page.html"
    contents = b"".join(page.with_suffix(f".{kind}").read_bytes() for kind in ("html", "css", "js"))
    return hashlib.sha256(contents).hexdigest()


def outdated() -> list[str]:
    """Return the pictures that are older than what they show."""
    is_current = {
        REPORT: DIGEST.read_text("utf-8").strip() == digest(),
        COMPARISON: COMPARISON.read_text("utf-8") == comparison(),
    }
    return [picture.name for picture, current in is_current.items() if not current]


def run(*command: str, folder: Path) -> None:
    """Run a module with the environment's packages."""
    subprocess.run([sys.executable, "-m", *command], cwd=folder, check=True, capture_output=True)


def draw_report() -> None:
    """Crawl the demo, and take a picture of its report."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        report = f"ROBOTS_REPORT={folder / 'robots.jsonl'}"
        run("scrapy", "crawl", "demo", "-s", report, folder=ROOT / "example_project")
        run("scrapy", "robots", "report", "robots.jsonl", "--html", "r.html", folder=folder)
        page = (folder / "r.html").as_uri()
        profile, shot = f"--user-data-dir={folder / 'profile'}", f"--screenshot={REPORT}"
        subprocess.run([*_CHROMIUM.split(), profile, shot, page], check=True, capture_output=True)
    DIGEST.write_text(f"{digest()}\n", encoding="utf-8")


def comparison() -> str:
    """Return the picture of the table."""
    page = (ROOT / "docs" / "demo.md").read_text("utf-8")
    cells = (line.strip("|").split("|")[:4] for line in page.splitlines() if line[:1] == "|")
    numbers = {row.strip(" `"): (alone.strip(), ours.strip()) for row, _, alone, ours in cells}
    height = 84 + 40 * len(ROWS)
    size = f'viewBox="0 0 510 {height}" width="510" height="{height}"'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">',
        "<title>Disallowed pages that were fetched</title>",
        f"<style>{_STYLE}</style>",
        f'<rect class="card" x="0.5" y="0.5" width="509" height="{height - 1}" rx="8"/>',
        '<text class="title" x="20" y="32">Disallowed pages that were fetched</text>',
        '<text class="dim" x="20" y="62">if robots.txt</text>',
    ]
    for left, text in zip(_COLUMNS, numbers["row"], strict=True):
        lines.append(f'<text class="dim" x="{left}" y="62">{escape(text)}</text>')
    for place, (row, label) in enumerate(ROWS.items()):
        top = 92 + 40 * place
        lines.append(f'<text x="20" y="{top}">{escape(label)}</text>')
        for left, text in zip(_COLUMNS, numbers[row], strict=True):
            lines.extend(_cell(left, top, text))
    return "\n".join([*lines, "</svg>", ""])


def _cell(left: int, top: int, text: str) -> list[str]:
    """Return a number with a bar below it, which shows the largest share."""
    pages, total = map(int, re.findall(r"(\d+) of (\d+)", text)[0])
    kind, width = ("bad" if pages else "good"), 100 * pages / total
    return [
        f'<text class="number {kind}" x="{left}" y="{top}">{text}</text>',
        f'<rect class="track" x="{left}" y="{top + 7}" width="100" height="5" rx="2"/>',
        f'<rect class="bad" x="{left}" y="{top + 7}" width="{width:g}" height="5" rx="2"/>',
    ]


def main() -> None:
    """Draw the pictures, or compare them."""
    if "--check" in sys.argv:
        names = outdated()
        sys.exit(f"older than what they show: {', '.join(names)}; make pictures" if names else 0)
    COMPARISON.write_text(comparison(), encoding="utf-8")
    # A proxy from the environment would not find the sites.
    for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
        del os.environ[name]
    draw_report()


if __name__ == "__main__":
    main()
