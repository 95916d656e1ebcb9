"""Import this before anything that logs: structlog comes without rich."""

from __future__ import annotations

from orchgit.without_rich import import_without_rich

import_without_rich("structlog")
