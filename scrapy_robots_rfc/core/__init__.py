"""The robots.txt parser (RFC 9309, 2.1 and 2.2), which also reads records other than rules.

This package does no I/O, does not read the clock and does not import Scrapy.
"""
