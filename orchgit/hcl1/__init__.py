"""The language of agent configurations and access policies, HCL1; `parse.parse` reads a text.

The language is older than that of job files: it has no expressions, a block may stand on one line
with or without commas, and `name {` means the same as `name = {`. Everything here is pure.
"""
