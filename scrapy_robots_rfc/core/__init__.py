"""A robots.txt parser (RFC 9309, 2.1 and 2.2) that also reads records such as Crawl-delay.

This package does no I/O, does not read the clock and does not import Scrapy.
"""
