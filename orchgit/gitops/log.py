"""The log of this package. What is logged here never holds a URL that was not redacted."""

from __future__ import annotations

import structlog

LOG = structlog.get_logger(component="gitops")
