"""The third-party store that docs/caching.md shows."""

from __future__ import annotations

from typing import Any

from tests.support.documents import block

FolderStore: Any
exec(block("docs/caching.md", "python", "class FolderStore"), globals())
