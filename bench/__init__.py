"""Benchmarks. `python -m bench --help` lists them."""
