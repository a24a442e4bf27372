"""Make the picture of the report of the demo, docs/assets/report.png.

The picture is always the same for the same code, because ports and times are fixed. Without
Chromium, `python -m tools.pictures` changes nothing.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PICTURE = ROOT / "docs" / "assets" / "report.png"
SCRAPY = str(Path(sys.executable).with_name("scrapy"))
BEGINNING = datetime(2026, 11, 21, 8, tzinfo=UTC)


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


def main() -> int:
    """Make the picture and return the exit code."""
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
        flags = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
        flags += [f"--user-data-dir={folder / 'profile'}", "--window-size=1000,610"]
        command = [chromium, *flags, f"--screenshot={PICTURE}", (folder / "report.html").as_uri()]
        subprocess.run(command, check=True, capture_output=True, timeout=60)
    print("docs/assets/report.png")
    return 0


if __name__ == "__main__":
    sys.exit(main())
