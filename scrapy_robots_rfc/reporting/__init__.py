"""What a crawl writes down for its user: the report, the archive, and the summary at its end.

All of them are leaves, see `leaves.py`.
"""

import logging
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from scrapy.crawler import Crawler

from scrapy_robots_rfc._runtime import Runtime
from scrapy_robots_rfc.core.text import error_text

logger: logging.Logger = logging.getLogger(__name__)

# Seconds between two errors about one file: a full disk must not fill the log, too.
_PAUSE = 60.0


@dataclass(slots=True, eq=False, repr=False)
class LossLog:
    """Counts what cannot be written into a file, and logs that once a minute at most.

    :param setting: names the file.
    :param stat: counts what is lost.
    :param look_for: what may be the reason.
    """

    crawler: Crawler
    setting: str
    stat: str
    look_for: str
    _next: float = -math.inf

    def log(self, place: object, error: Exception) -> None:
        """Count an error, and log it unless there was one less than a minute ago.

        :param place: the name of the file that users know.
        """
        assert self.crawler.stats is not None
        self.crawler.stats.inc_value(self.stat)
        now = Runtime().clock()
        if now >= self._next:
            self._next = now + _PAUSE
            logger.error(
                "%s: %s cannot be written (%s). The crawl goes on; what is lost is counted in %s."
                " Look for %s",
                self.setting,
                place,
                error_text(error),
                self.stat,
                self.look_for,
                extra={"spider": self.crawler.spider},
            )


def counted_by_name(counted: Mapping[str, Any], key: str) -> dict[str, Any]:
    """Return name -> count of all stats that a key with a placeholder at its end stands for.

    :param counted: the stats of a crawl.
    :param key: as in `stats.py`, such as ``robotstxt/exempted/{site}``.
    """
    begin = key.partition("{")[0]
    names = [name for name in counted if str(name).startswith(begin)]
    return {name.removeprefix(begin): counted[name] for name in names}
