"""What a crawl writes down for its user: report, archive and summary. All of them are leaves."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from scrapy.crawler import Crawler

from scrapy_robots_rfc.core.text import error_text

logger: logging.Logger = logging.getLogger(__name__)


@dataclass(slots=True, eq=False, repr=False)
class LossLog:
    """Counts what cannot be written, and logs the first loss: a full disk must not fill the log."""

    crawler: Crawler
    setting: str
    stat: str
    _logged: bool = False

    def add(self, place: object, error: Exception) -> None:
        """Count an error; `place` is the name of the file that users know."""
        assert self.crawler.stats is not None
        self.crawler.stats.inc_value(self.stat)
        if not self._logged:
            self._logged = True
            logger.error(
                "%s: %s cannot be written (%s). The crawl goes on; what is lost is counted in %s."
                " Look for a full disk, missing rights, or a server that is down",
                self.setting,
                place,
                error_text(error),
                self.stat,
                extra={"spider": self.crawler.spider},
            )


def counted_by_name(counted: Mapping[str, Any], key: str) -> dict[str, Any]:
    """Return name -> count of all stats of a key such as ``robotstxt/exempted/{site}``."""
    begin = key.partition("{")[0]
    found = {str(name): count for name, count in counted.items()}
    return {
        name.removeprefix(begin): count for name, count in found.items() if name.startswith(begin)
    }
