"""`scrapy robots ...`: what can be asked of robots.txt on the command line, with a module for each topic."""
