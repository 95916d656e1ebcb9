"""What every test shares."""

from __future__ import annotations

# Imported first: CPython 3.11 can refuse to parse source after some test provoked a RecursionError,
# and hypothesis parses source while it is imported.
import hypothesis

hypothesis.settings.register_profile("suite", deadline=None)
hypothesis.settings.load_profile("suite")
