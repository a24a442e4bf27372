"""Copies of robots.txt files: in memory, in stores, and the locks of crawls that share a store."""
