"""What RFC 9309, 2.2.4 to 2.4, asks of a crawl.

These modules have no I/O and no clock: `now` is an argument.
"""
