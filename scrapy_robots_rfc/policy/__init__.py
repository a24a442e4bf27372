"""Decide what a crawl does about robots.txt beyond its rules (RFC 9309, 2.2.4 to 2.4).

These modules have no I/O and no clock: `now` is an argument.
"""
