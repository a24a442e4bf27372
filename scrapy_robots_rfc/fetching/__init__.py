"""How a robots.txt is fetched, parsed and remembered: from an origin to what is known of it."""
