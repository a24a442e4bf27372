"""What meets Scrapy's requests: the downloader middleware, and what belongs to it."""
