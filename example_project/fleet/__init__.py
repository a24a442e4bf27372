"""Several Scrapy processes that share one queue, one store of robots.txt files, and intervals.

`python -m fleet` (or `make fleet-demo`) shows it on one machine. A worker consists of `settings.py`
and `spider.py`; copy these two to make a fleet of your own. The other files run the demo.
"""
