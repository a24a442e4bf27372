"""What RFC 9309, 2.3 and 2.4, asks of a fetch. Pure: no I/O and no clock here; `now` is an argument."""
