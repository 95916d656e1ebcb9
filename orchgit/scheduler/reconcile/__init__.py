"""From what a job wants and what it has to what must change."""
