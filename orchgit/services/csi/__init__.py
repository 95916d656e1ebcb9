"""Volumes of storage plugins that speak the Container Storage Interface (CSI)."""
