"""Gives the package a README with absolute links, because the package index has no other files.

hatchling runs this when it builds the package (pyproject.toml).
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
