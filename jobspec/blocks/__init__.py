"""The blocks of a job file: the table of all of them, and decoding into the shape of the API."""
