"""From a tree of files to parsed jobs, in processes with limits of time and memory."""
