"""Draw the pictures of the documents: `python -m tools.pictures`, or with `--check`, compare them.

`report.png` is the HTML report of the demo, taken with Chromium. `comparison.svg` shows what
`example_project/stock.py` measures. The text file beside each picture is the digest of the files
that the picture shows, so `--check` finds a picture that is older than them.
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
PROJECT = ROOT / "example_project"
DEMO_PAGE = ROOT / "docs" / "demo.md"
COMMANDS = ROOT / "scrapy_robots_rfc" / "commands"
#: Picture -> the files that it shows.
SOURCES = {
    "report.png": [COMMANDS / f"report_page.{kind}" for kind in ("html", "css", "js")],
    "comparison.svg": [PROJECT / "stock.py"],
}
#: How often `stock.py` runs, because the numbers of one row depend on timing.
RUNS = 5
#: Row of `stock.py` -> what the site's robots.txt does.
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


def digest(picture: str) -> str:
    """Return the digest of the files that a picture shows."""
    contents = b"".join(path.read_bytes() for path in SOURCES[picture])
    return hashlib.sha256(contents).hexdigest()


def outdated() -> list[str]:
    """Return the pictures that are older than the files that they show."""
    return [
        picture
        for picture in SOURCES
        if (ASSETS / f"{picture}.sha256").read_text("utf-8").strip() != digest(picture)
    ]


def run(*command: str, folder: Path) -> str:
    """Run a command with the environment's packages, and return its output."""
    done = subprocess.run(
        [sys.executable, *command], cwd=folder, check=True, capture_output=True, text=True
    )
    return done.stdout


def draw_report(picture: Path) -> None:
    """Crawl the demo, and take a picture of its report."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        report = f"ROBOTS_REPORT={folder / 'robots.jsonl'}"
        run("-m", "scrapy", "crawl", "demo", "-s", report, folder=PROJECT)
        run("-m", "scrapy", "robots", "report", "robots.jsonl", "--html", "r.html", folder=folder)
        page = (folder / "r.html").as_uri()
        profile, shot = f"--user-data-dir={folder / 'profile'}", f"--screenshot={picture}"
        subprocess.run([*_CHROMIUM.split(), profile, shot, page], check=True, capture_output=True)


def measured(waiting: list[str]) -> dict[str, tuple[str, str]]:
    """Return the two numbers of each row of `stock.py`, as a range if several runs differ.

    :param waiting: the numbers that earlier runs measured for the row that depends on timing.
    """
    found = {"waiting": [(alone, "0 of 20") for alone in waiting]}
    for _ in range(RUNS):
        heading, *lines = run("stock.py", folder=PROJECT).splitlines()[2:]
        for line in (heading, *lines):
            row, _, alone, plugin = re.split(r" {2,}", line.strip())
            found.setdefault(row, []).append((alone, plugin))
    return {
        row: (_range([alone for alone, _ in numbers]), _range([ours for _, ours in numbers]))
        for row, numbers in found.items()
    }


def _range(texts: list[str]) -> str:
    """Return "5 to 16 of 20" for texts such as "5 of 20" and "16 of 20"."""
    first, *others = sorted(set(texts), key=_pages)
    return f"{first.split()[0]} to {others[-1]}" if others else first


def _pages(text: str) -> int:
    """Return the first number of a text, or 0 for a heading."""
    first = text.split(maxsplit=1)[0]
    return int(first) if first.isdecimal() else 0


def draw_comparison(picture: Path) -> None:
    """Measure, draw a table with bars, and widen the range in the page if it was exceeded."""
    page = DEMO_PAGE.read_text("utf-8")
    [(low, high)] = re.findall(r"(\d+) to (\d+) of 20", page)
    numbers = measured([f"{low} of 20", f"{high} of 20"])
    picture.write_text(svg(numbers), encoding="utf-8")
    changed = page.replace(f"{low} to {high} of 20", numbers["waiting"][0])
    DEMO_PAGE.write_text(changed, encoding="utf-8")


def svg(numbers: dict[str, tuple[str, str]]) -> str:
    """Return the picture."""
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


DRAW = {"report.png": draw_report, "comparison.svg": draw_comparison}


def main() -> None:
    """Draw all pictures or the named ones, or compare them."""
    if "--check" in sys.argv:
        names = outdated()
        sys.exit(f"older than what they show: {', '.join(names)}; make pictures" if names else 0)
    # A proxy from the environment would not find the sites.
    for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
        del os.environ[name]
    for picture in sys.argv[1:] or DRAW:
        DRAW[picture](ASSETS / picture)
        (ASSETS / f"{picture}.sha256").write_text(f"{digest(picture)}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
