"""The bare mirrors of each server, and the exchange of git objects between servers."""
