"""Metrics: their values, the two forms in which they are shown, and the settings of both."""
