"""Crawls with random faults, and a judge: `python -m bench.faults`."""
