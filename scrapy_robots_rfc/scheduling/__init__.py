"""Decide when a site's next request may be sent."""
