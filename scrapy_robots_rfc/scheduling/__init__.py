"""When the next request of a site may be sent."""
