"""The parser and matcher of RFC 9309, 2.1 and 2.2. Nothing in this folder does I/O, reads a clock or imports Scrapy."""
