"""Configuration files of an agent: read, checked, turned into settings."""
