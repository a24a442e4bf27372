"""A parser for robots.txt (RFC 9309, 2.1 and 2.2) and for other records, such as Crawl-delay.

This package does no I/O, does not read the clock and does not import Scrapy.
"""
