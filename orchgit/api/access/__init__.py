"""Who may ask what: one table of requirements, consulted before any handler runs."""
