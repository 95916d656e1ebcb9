"""The routes, one file per resource; each has `ENDPOINTS`."""
