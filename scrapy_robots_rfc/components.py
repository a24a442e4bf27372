"""Keys of Scrapy's dictionaries of components, such as DOWNLOADER_MIDDLEWARES, and the classes that they stand for.

In here: loading. Which components stand there, and where, is `addon.py` and `early.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scrapy.utils.misc import load_object

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings


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


def placed(settings: BaseSettings, name: str) -> list[tuple[float, Any]]:
    """Return the components that are on, each behind its position, in their order.

    :param name: of the setting without ``_BASE``, whose components count as well.
    """
    with_base = getattr(settings, "get_component_priority_dict_with_base", settings.getwithbase)  # Scrapy 2.15 has one
    found = [(position, key) for key, position in with_base(name).items() if position is not None]
    return sorted(found, key=lambda pair: pair[0])
