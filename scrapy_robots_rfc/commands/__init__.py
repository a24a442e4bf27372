"""`scrapy robots ...`: what can be asked of robots.txt on the command line, a module a topic."""
