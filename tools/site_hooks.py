"""Hooks for mkdocs, which add pages and change links. mkdocs calls the functions named `on_...`."""

import posixpath
import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from pymdownx.slugs import slugify

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # mkdocs loads this file by its path alone

from scrapy_robots_rfc import _MODULES  # noqa: E402 - see the line above
from tools.repository import link_to  # noqa: E402

#: Documents of the root that are pages of the site, with their names on the site.
FROM_ROOT = {"README.md": "index.md"}
API = "api.md"
API_HEAD = """# Python API

The public names of `scrapy_robots_rfc`, with their docstrings. Other names may change. See also
[settings and request meta](settings.md), and [robots.txt in a spider](spiders.md).
"""
#: Modules with public names that the package does not export.
API_MODULES = (
    "scrapy_robots_rfc.core.explanation",
    "scrapy_robots_rfc.errors",
    "scrapy_robots_rfc.signals",
)

SERVICE = "scrapy_robots_rfc.fetching.service.RobotsService"
_LINES = re.MULTILINE | re.DOTALL
_LINK = re.compile(r"(?<=\]\()([^)\s]+)(?=\))")
_CODE = re.compile(r"(^ *```.*?^ *```$|`[^`\n]*`)", _LINES)
_TABLE = re.compile(r"<table>.*?</table>", re.DOTALL)
_HEAD = re.compile(r"<th\b[^>]*>(.*?)</th>", re.DOTALL)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Spell anchors as GitHub does, so that links to headings work in both places."""
    config.mdx_configs.setdefault("toc", {})["slugify"] = slugify(case="lower")
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are not in docs/."""
    for name, page in FROM_ROOT.items():
        files.append(File.generated(config, page, abs_src_path=str(ROOT / name)))
    files.append(File.generated(config, API, content=API_HEAD + reference()))
    return files


def reference() -> str:
    """Return the directives of mkdocstrings for all public names."""
    names = [f"scrapy_robots_rfc.{module}.{name}" for name, module in _MODULES.items()]
    names = [name for name in names if not name.startswith(API_MODULES)]
    # Show only the methods of the service that docs/spiders.md describes.
    [described] = re.findall(
        r"^## `RobotsService`\n(.*?)^## ", (ROOT / "docs/spiders.md").read_text("utf-8"), _LINES
    )
    members = ", ".join(re.findall(r"^[|] `(\w+)`", described, re.MULTILINE))
    options = {SERVICE: f"    options:\n      members: [{members}]\n"}
    return "".join(f"\n::: {name}\n{options.get(name, '')}" for name in (*names, *API_MODULES))


def on_page_markdown(markdown: str, page: Page, files: Files, **_: Any) -> str:  # noqa: ANN401 - mkdocs's own arguments
    """Change links to files outside the site into links to the repository."""
    source = page.file.src_uri
    origin = next((name for name, built in FROM_ROOT.items() if built == source), f"docs/{source}")

    def replaced(found: re.Match[str]) -> str:
        return target_of(found[1], origin, files)

    parts = _CODE.split(markdown)
    # GitHub needs a backslash before a | in code in a table, but Markdown would show it.
    parts = [
        part.replace("\\|", "|") if number % 2 else _LINK.sub(replaced, part)
        for number, part in enumerate(parts)
    ]
    return "".join(parts)


def on_page_content(html: str, **_: Any) -> str:  # noqa: ANN401 - mkdocs's own arguments
    """Add the head of its column to each cell of a table, for narrow screens."""
    return _TABLE.sub(labelled, html)


def labelled(table: re.Match[str]) -> str:
    """Return a table whose cells have an attribute `data-head`."""
    heads = [re.sub("<[^>]*>", "", head).replace('"', "") for head in _HEAD.findall(table[0])]

    def row(found: re.Match[str]) -> str:
        names = iter(heads)
        return re.sub("<td", lambda _: f'<td data-head="{next(names, "")}"', found[0])

    return re.sub(r"<tr>.*?</tr>", row, table[0], flags=re.DOTALL)


def target_of(link: str, origin: str, files: Files) -> str:
    """Return the target of a link on the site.

    :param origin: the file with the link, relative to the root of the project.
    """
    if link.startswith("#") or re.match(r"[a-z][a-z0-9+.-]*:", link):
        return link
    path, _, anchor = link.partition("#")
    path = posixpath.normpath(posixpath.join(posixpath.dirname(origin), path))
    built = FROM_ROOT.get(path) or path.removeprefix("docs/")
    if (path in FROM_ROOT or path.startswith("docs/")) and files.get_file_from_path(built):
        return f"{built}#{anchor}" if anchor else built
    if not (ROOT / path).exists():
        raise PluginError(f"{origin} links to {link}, which does not exist")
    return link_to(path, anchor)
