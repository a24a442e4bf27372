"""Copies as JSON objects, for people and other programs: what `scrapy robots cache` prints, exports and imports.

In here: a copy to such an object and back. Which values are valid is `codec.py`'s, which reads them all.
"""

from __future__ import annotations

import base64
import binascii
import json
import zlib
from typing import Any

from scrapy_robots_rfc.cache.entry import MAGIC, VERSION, CacheEntry, decode, encode
from scrapy_robots_rfc.policy.origins import Origin

#: Entries of a head that speak of the octets in a store.
_OF_OCTETS = ("coding", "length")


def record_of(key: str, copy: CacheEntry) -> dict[str, Any]:
    """Return a copy as JSON objects hold it: the entries of its head, and its file.

    :param key: its origin, in a store.
    :returns: ``origin``, ``version``, the entries that have a value; ``file``, or ``file_base64`` where the file is not
        UTF-8.
    """
    head = json.loads(encode(copy).split(b"\n", 2)[1])
    entries = {name: value for name, value in head.items() if name not in _OF_OCTETS}
    return {"origin": key, "version": VERSION, **entries, **_file(copy.body)}


def _file(body: bytes | None) -> dict[str, str]:
    if body is None:
        return {}
    try:
        return {"file": body.decode("utf-8")}
    except UnicodeDecodeError:
        return {"file_base64": base64.b64encode(body).decode("ascii")}


def copy_of(record: object) -> tuple[str, CacheEntry]:
    """Return the origin and the copy of `record_of`.

    :raises ValueError: this is none, or of an unknown version; the text says what is wrong.
    """
    if not isinstance(record, dict):
        raise ValueError("not a JSON object")
    key, version, body, head = _parts(dict(record))
    if not isinstance(key, str) or Origin.written(key) is None:
        raise ValueError("its origin is none: scheme://host, or scheme://host:port")
    if body is not None:
        head["length"] = len(body)
    rest = json.dumps(head).encode("ascii") + b"\n" + (body or b"")
    return key, decode(b"%s %s %08x\n%s" % (MAGIC, _version(version), zlib.crc32(rest), rest))


def _parts(entries: dict[str, Any]) -> tuple[object, object, bytes | None, dict[str, Any]]:
    key, version = entries.pop("origin", None), entries.pop("version", None)
    text, encoded = entries.pop("file", None), entries.pop("file_base64", None)
    for name in _OF_OCTETS:
        entries.pop(name, None)
    if text is None and encoded is None:
        return key, version, None, entries
    try:
        body = text.encode("utf-8") if text is not None else base64.b64decode(encoded, validate=True)
    except (AttributeError, TypeError, UnicodeEncodeError, binascii.Error):
        raise ValueError("its file is no text, or no base64") from None
    return key, version, body, entries


def _version(version: object) -> bytes:
    if not isinstance(version, int) or isinstance(version, bool) or version < 0:
        raise ValueError("it has no version")
    return b"%d" % version
