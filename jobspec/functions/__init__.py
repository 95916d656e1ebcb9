"""The 83 functions of a job file, one table by name; modules by subject."""

from __future__ import annotations

from jobspec.functions import (
    collection,
    crypto,
    encoding,
    filesystem,
    network,
    numeric,
    sequences,
    strings,
    times,
)
from jobspec.functions.signature import Function

FUNCTIONS: dict[str, Function] = {
    **numeric.FUNCTIONS,
    **strings.FUNCTIONS,
    **collection.FUNCTIONS,
    **sequences.FUNCTIONS,
    **encoding.FUNCTIONS,
    **crypto.FUNCTIONS,
    **times.FUNCTIONS,
    **network.FUNCTIONS,
    **filesystem.FUNCTIONS,
}
"""All but can, try and convert, which see their arguments' expressions (`functions.call`)."""
