"""What the commands print: tables, diffs, JSON, SARIF, progress."""
