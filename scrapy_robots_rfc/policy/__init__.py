"""What RFC 9309, 2.3 and 2.4, asks of a fetch. These modules have no I/O and no clock: `now` is an argument."""
