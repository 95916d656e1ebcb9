"""Gives each wanted placement a node, ports and devices, or explains why none fits."""
