"""The cache of the sole writer: what it read or wrote a moment ago.

A registration is followed within milliseconds by the outcome of its evaluation, and both need what
the writer has just written: whether the evaluation exists, what the status of the job follows from,
whether the namespace exists. Only the writer writes, so a cached value is what the transaction
would read.
"""

from __future__ import annotations

from orchgit.state.cache import Cache
from orchgit.state.job_status import StatusInputs


class WriterCache:
    """Belongs to the applier's thread."""

    def __init__(self) -> None:
        self.index_offset: int | None = None
        """Index of the state minus index of the log."""
        self.namespaces: set[str] = set()
        """Names of namespaces that exist; not all of them."""
        self.evaluation_create_indexes: Cache[str, int] = Cache()
        self.job_status_inputs: Cache[tuple[str, str], StatusInputs] = Cache()
        """By (namespace, job id), for jobs that are registered."""

    def clear(self) -> None:
        self.index_offset = None
        self.namespaces.clear()
        self.evaluation_create_indexes.clear()
        self.job_status_inputs.clear()
