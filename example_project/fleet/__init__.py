"""Several Scrapy processes that crawl together: one queue, one store of robots.txt files, one pace
for each site.

`python -m fleet` (or `make fleet-demo`) shows it on this machine. To make a fleet of your own, read
`settings.py` and `spider.py`: that is all a worker is. The rest is the demo around them.
"""
