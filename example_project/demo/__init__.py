"""A Scrapy project that shows scrapy_robots_rfc on web sites of its own, all on this machine."""
