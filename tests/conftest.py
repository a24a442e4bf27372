"""Fixtures for all tests. Fixtures that only crawls need are in `tests/scrapy/conftest.py`."""
