"""What users are told: reports, log lines about sites, the summary at the end of a crawl."""
