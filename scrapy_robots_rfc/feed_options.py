"""Options of a feed: what is wrong with those that Scrapy would take in silence, or notice when it is too late.

In here: values as the user wrote them. What Scrapy itself refuses is asked of it in `feeds.py`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from scrapy.extensions.feedexport import GCSFeedStorage

from scrapy_robots_rfc.records import FIELDS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

#: The options that Scrapy documents for FEEDS.
KNOWN = frozenset(
    {
        "batch_item_count",
        "encoding",
        "fields",
        "format",
        "indent",
        "item_classes",
        "item_export_kwargs",
        "item_filter",
        "overwrite",
        "postprocessing",
        "store_empty",
        "uri_params",
    }
)


def _is_number(value: object) -> bool:
    return value is None or (isinstance(value, int) and not isinstance(value, bool) and value >= 0)


def _is_fields(value: object) -> bool:
    return value is None or (isinstance(value, (list, tuple, dict)) and set(value) <= FIELDS.keys())


def _is_bool(value: object) -> bool:
    return isinstance(value, bool)


#: Option -> what it must be, and how that is said.
_VALUES: dict[str, tuple[Callable[[object], bool], str]] = {
    "overwrite": (_is_bool, "overwrite that is True or False"),
    "store_empty": (_is_bool, "store_empty that is True or False"),
    "indent": (_is_number, "a whole number as indent, at least 0"),
    "fields": (_is_fields, f"fields of a record: {', '.join(FIELDS)}"),
}


def wrong(options: Mapping[str, Any]) -> str | None:
    """Return what would be accepted in place of a value; ``None``: nothing is wrong."""
    return next((said for name, (good, said) in _VALUES.items() if name in options and not good(options[name])), None)


def unknown(options: Mapping[str, Any], *components: object) -> str | None:
    """Return what would be accepted in place of an option that nobody knows; ``None``: nothing is wrong.

    :param components: classes and plugins that get the options. One that is not Scrapy's may have options of its own.
    """
    others = [name for name in options if name not in KNOWN and not name.startswith(("gzip_", "bz2_", "lzma_"))]
    if not others or not all(_is_scrapys(component) for component in components):
        return None
    return f"options among {', '.join(sorted(KNOWN))}; not {others[0]!r}"


def _is_scrapys(component: object) -> bool:
    name = component if isinstance(component, str) else getattr(component, "__module__", "")
    return isinstance(name, str) and name.startswith("scrapy.")


def load_client(storage: object) -> None:
    """Load what a storage would load at the end of the crawl.

    :raises ImportError: it is not installed.
    """
    if isinstance(storage, GCSFeedStorage):
        importlib.import_module("google.cloud.storage")
