"""A digest of what a job's specification means."""

from __future__ import annotations

import hashlib

import msgspec

from orchgit.jobdiff.spec import bare_spec
from orchgit.model.job import Job
from orchgit.services.jobs.admission import completed

_ENCODER = msgspec.msgpack.Encoder(order="deterministic")
_DECODER = msgspec.msgpack.Decoder(Job)


def spec_id_of(job: Job) -> str:
    """Returns a SHA-256 of the completed job without the server's bookkeeping: the same for the job
    of a file and for the version that was registered from it, unless its count was scaled."""
    # Decoding brings numbers to their fields' types, as storing the job does.
    stored = _DECODER.decode(_ENCODER.encode(bare_spec(completed(job))))
    return hashlib.sha256(_ENCODER.encode(stored)).hexdigest()
