"""Keys of Scrapy's dictionaries of components, such as DOWNLOADER_MIDDLEWARES, and the classes that they stand for.

In here: loading. Which components stand there, and where, is `addon.py` and `early.py`.
"""

from __future__ import annotations

from scrapy.utils.misc import load_object


def loaded(key: str | type) -> object:
    """Return the class that a key stands for, or the key: Scrapy reports what is no class."""
    try:
        return load_object(key)
    except (AttributeError, ImportError, NameError, TypeError, ValueError):
        return key


def stands_for(key: str | type, kind: type) -> bool:
    """Whether a key stands for a class or a subclass of it."""
    found = loaded(key)
    return isinstance(found, type) and issubclass(found, kind)
