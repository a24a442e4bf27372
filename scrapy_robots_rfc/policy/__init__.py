"""Pure: what RFC 9309, 2.3 and 2.4, ask of a fetch. Nothing in here does I/O or reads a clock; `now` is an argument."""
