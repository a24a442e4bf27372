"""RFC 9309, 2.1 and 2.2: octets in, values out. Pure: no I/O, no clock, no framework."""
