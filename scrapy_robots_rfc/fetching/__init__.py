"""How a robots.txt is fetched, parsed and kept: from an origin to what is known of it."""
