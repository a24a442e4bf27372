"""Persistent stores for robots.txt files."""
