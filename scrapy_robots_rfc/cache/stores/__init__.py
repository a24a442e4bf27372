"""robots.txt files outside of a crawl's memory: the contract, how a copy is written down, and the stores themselves."""
