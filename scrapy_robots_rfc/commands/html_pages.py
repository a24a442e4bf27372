"""Write HTML pages, and only overwrite pages that a command has written."""

import base64
import hashlib
import os
from pathlib import Path

from scrapy_robots_rfc.commands.common import STANDARD, Failed

#: The start of every page, up to the hash of its stylesheet.
START = (
    '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src '"
)


def digest(text: str) -> str:
    """Return the hash that a Content-Security-Policy needs to allow a script or stylesheet."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def write_page(name: str, text: str) -> None:
    """Write a page. Only overwrite an empty file or an earlier page."""
    path = Path(os.path.realpath(name))  # if `/dev/fd/N` is a pipe, this path doesn't exist
    try:
        if name == STANDARD or (Path(name).exists() and not path.is_file()):
            raise Failed(
                f"refusing to write to {name}, because it is not a regular file; use another file"
            )
        if path.exists() and not _is_page(path):
            raise Failed(
                f"refusing to overwrite {name}, because this command did not write it; delete it,"
                " or use another file"
            )
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise Failed(
            f"{path} cannot be written: {error.strerror};"
            " check the permissions and the free space, or use another file"
        ) from error


def _is_page(path: Path) -> bool:
    """Return True if a file is empty or an earlier page."""
    with path.open("rb") as file:
        return file.read(len(START)) in (START.encode(), b"")
