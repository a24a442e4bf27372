"""Fetch, parse and cache robots.txt files."""
