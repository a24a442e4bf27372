"""`scrapy robots ...`: the command line of robots.txt, with a module for each topic."""
