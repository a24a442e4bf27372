"""Reads robots.txt (RFC 9309, 2.1 and 2.2) and what sites say beside it. There is no I/O, no clock and no Scrapy here."""
