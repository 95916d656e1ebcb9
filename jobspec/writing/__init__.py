"""From a job back to a job file: the writer, what it may leave out, and the change of an image."""
