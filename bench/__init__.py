"""Measures this project beside the other robots.txt parsers that Scrapy users have.

`python -m bench`.
"""
