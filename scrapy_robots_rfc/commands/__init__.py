"""The `scrapy robots` command, with a module for each topic."""
