"""A Scrapy project that demonstrates scrapy_robots_rfc on small web sites on this machine."""
