"""Write HTML reports of usual and of hostile records."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tests.support.command_line import run
from tests.support.reports import exempt, exported, record, unreachable

if TYPE_CHECKING:
    from pathlib import Path


def made(
    folder: Path, records: list[dict[str, Any]], *arguments: str, name: str = "robots.jsonl"
) -> dict[str, Any]:
    """Write a page of records, and return the JSON that the command prints."""
    (folder / name).write_bytes(exported(records))
    done = run("report", name, "--json", "--html", "report.html", *arguments, folder=folder)
    assert (done.code, done.err) == (0, "")
    sums: dict[str, Any] = json.loads(done.out)
    return sums


ACTS = "document.title=window.acted=1"


def hostile(site: str) -> list[dict[str, Any]]:
    """Records whose texts try to run code, or to reach a site."""
    texts = [
        f"<script>{ACTS}</script>",
        f'"><img src="{site}/x" onerror="{ACTS}">',
        f"'><svg onload='{ACTS}'>",
        f"</title></style></script></code></table><script>{ACTS}</script>",
        "<!-- <script>",
        "__proto__",
        f"<base href='{site}/'><link rel=stylesheet href='{site}/x.css'>",
        f"<meta http-equiv=refresh content='0;url={site}/'>",
        "$script ${style} $headline {{7*7}} %s &lt;b&gt; &amp;",
        "\u202eabc\u2066\x00\x1b[2J\ud800\r\n",
    ]
    links = [
        f"javascript:{ACTS}",
        f"JaVaScRiPt:{ACTS}//https://a.example",
        f"data:text/html,<script>{ACTS}</script>",
        f'https://a.example/" onmouseover="{ACTS}',
        f"https://me:secret@a.example/'onclick='{ACTS}",
        "https://a.example/\n\tjavascript:alert(1)",
        "//b.example/x",
        "file:///etc/passwd",
        "https://" + "x" * 3000 + ".example/",
    ]
    every = [*texts, *links]
    names = ("run", "spider", "agent", "url", "origin", "token", "reason", "rule", "why")
    made = [record(**{name: text}) for text in every for name in names]
    made += [record(**dict.fromkeys(names, text)) for text in every]
    return [*made, *(unreachable(text) for text in every), *(exempt(text, 3) for text in every)]
