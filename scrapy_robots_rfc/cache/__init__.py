"""Copies of robots.txt files, in memory and in stores, plus locks for crawls that share a store."""
