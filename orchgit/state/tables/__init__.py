"""SQL of each aggregate: reads (for snapshots) and writes (for the applier)."""
