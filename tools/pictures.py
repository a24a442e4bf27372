"""Make the pictures in docs/assets: the report of the demo, and `scrapy robots check`.

The pictures are always the same for the same code, because ports, times and the width of the
terminal are fixed. Without Chromium, `python -m tools.pictures` changes nothing.
"""

from __future__ import annotations

import html
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ASSETS = ROOT / "docs" / "assets"
SCRAPY = str(Path(sys.executable).with_name("scrapy"))
BEGINNING = datetime(2026, 11, 21, 8, tzinfo=UTC)

#: The file and the page in the picture of `check`.
ROBOTS = """\
User-agent: *
Disallow: /

User-agent: newsbot
Disallow: /private/
Allow: /private/press
Disallow: /*.pdf$
"""
CHECK = ["https://news.example/private/report.pdf", "--agent", "newsbot", "--robots", "robots.txt"]

#: Escape sequences of colour -> style.
STYLES = {
    "0": "",
    "1": "font-weight:bold",
    "2": "color:#8b98a5",
    "31": "color:#ff7b72",
    "32": "color:#7ee787",
    "33": "color:#f2cc60",
    "36": "color:#79c0ff",
}
TERMINAL = """<!doctype html><meta charset="utf-8"><style>
body {{ margin: 0; padding: 18px 22px; background: #0d1117; color: #e6edf3; }}
pre {{ margin: 0; font: 15px/1.45 "DejaVu Sans Mono", monospace; }}
</style><pre>{}</pre>"""


def fixed(report: str) -> str:
    """Return a report with fixed ports and times, so that its picture is always the same."""
    ports: dict[str, int] = {}

    def port(found: re.Match[str]) -> str:
        return f"127.0.0.1:{ports.setdefault(found[1], 8001 + len(ports))}"

    records = []
    for number, line in enumerate(sorted(report.splitlines(), key=_order)):
        record = json.loads(re.sub(r"127\.0\.0\.1:(\d+)", port, line))
        for key, later in (("time", 0), ("fresh_until", 86_400)):
            if record.get(key):
                moment = BEGINNING + timedelta(seconds=number * number // 90 + later)
                record[key] = moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        records.append(json.dumps(record))
    return "\n".join(records) + "\n"


def _order(line: str) -> str:
    record = json.loads(line)
    return re.sub(r":\d+", "", f"{record['reason']} {record['why']} {record['url']}")


def coloured(output: str) -> str:
    """Return the output of a program on a terminal as HTML."""
    parts = re.split(r"\x1b\[([\d;]*)m", output)
    shown = [html.escape(parts[0])]
    for codes, text in zip(parts[1::2], parts[2::2], strict=True):
        style = ";".join(filter(None, (STYLES.get(code, "") for code in codes.split(";"))))
        shown.append(f'<span style="{style}">{html.escape(text)}</span>')
    return "".join(shown)


def on_terminal(command: list[str], folder: Path) -> str:
    """Return the output of a command on a terminal."""
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100", "NO_COLOR": ""}
    on_terminal = ["script", "--quiet", "--return", "--command", shlex.join(command), "/dev/null"]
    done = subprocess.run(
        on_terminal, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    return done.stdout.replace("\r\n", "\n")


def photograph(chromium: str, page: Path, picture: Path, size: str) -> None:
    """Make a picture of a page on disk."""
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
    with tempfile.TemporaryDirectory() as profile:
        flags += [f"--user-data-dir={profile}", f"--window-size={size}", f"--screenshot={picture}"]
        command = [chromium, *flags, page.as_uri()]
        subprocess.run(command, check=True, capture_output=True, timeout=60)


def main() -> int:
    """Make both pictures and return the exit code."""
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        print("docs/assets: not changed, because Chromium is not installed")
        return 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        feed = json.dumps({str(folder / "raw.jsonl"): {"format": "jsonlines"}})
        demo = [SCRAPY, "crawl", "demo", "-s", f"ROBOTS_REPORT={feed}"]
        subprocess.run(demo, cwd=ROOT / "example_project", check=True, capture_output=True)
        report = fixed((folder / "raw.jsonl").read_text(encoding="utf-8"))
        (folder / "robots.jsonl").write_text(report, encoding="utf-8")
        summed = [SCRAPY, "robots", "report", "robots.jsonl", "--html", "report.html"]
        subprocess.run(summed, cwd=folder, check=True, capture_output=True)
        photograph(chromium, folder / "report.html", ASSETS / "report.png", "1000,610")

        (folder / "robots.txt").write_text(ROBOTS, encoding="utf-8")
        output = on_terminal([SCRAPY, "robots", "check", *CHECK], folder)
        shown = f"$ scrapy robots check {' '.join(CHECK)}\n{coloured(output)}"
        page = folder / "check.html"
        page.write_text(TERMINAL.format(shown.rstrip()), encoding="utf-8")
        height = 36 + 22 * (output.count("\n") + 1)
        photograph(chromium, page, ASSETS / "check.png", f"1000,{height}")
    print("docs/assets/report.png, docs/assets/check.png")
    return 0


if __name__ == "__main__":
    sys.exit(main())
