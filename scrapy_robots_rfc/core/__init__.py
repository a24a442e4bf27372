"""Reads robots.txt (RFC 9309, 2.1 and 2.2) and what sites declare in it beside rules.

No I/O, no clock, no Scrapy here.
"""
