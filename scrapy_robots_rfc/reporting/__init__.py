"""What a crawl writes down for its user: report, archive and summary. All of them are leaves."""
