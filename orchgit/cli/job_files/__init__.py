"""Job files named on a command line: found, read, linted."""
