"""A crawl's report, archive, site log and closing summary, loaded only if they are enabled."""
