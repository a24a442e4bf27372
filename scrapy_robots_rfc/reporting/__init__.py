"""The report, archive, log of sites and closing summary of a crawl. All of them are leaves."""
