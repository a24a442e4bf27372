"""Gives the package its README with absolute links: the package index has none of the files that
relative ones lead to.

hatchling runs this when it builds the package; pyproject.toml says so.
"""

import sys
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

sys.path.insert(
    0, str(Path(__file__).resolve().parent.parent)
)  # hatchling loads this file by its path alone

from tools.repository import absolute


class ReadmeHook(MetadataHookInterface):
    """Sets the field `readme`."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Read the README and put it into the metadata."""
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": absolute(text)}
