"""Policies of a crawl that do not depend on rules, such as caching and pacing.

These modules do no I/O and do not read the clock. Callers pass the current time as `now`.
"""
