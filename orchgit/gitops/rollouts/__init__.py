"""The health of an applied commit's jobs, and why a job failed."""
