"""Policies that do not depend on the rules in a file, such as caching and pacing.

These modules do no I/O and do not read the clock. Callers pass the current time as `now`.
"""
