"""orchgit: `git push` is the only deploy command. See docs/architecture.md for the data path."""

__version__ = "0.1.0"
