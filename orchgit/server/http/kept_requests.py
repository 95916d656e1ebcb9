"""Answers a request that was asked before, byte for byte, without the app.

Requests with equal URLs and headers have equal answers while the state they are read from does not
change. The app says which answers may be given again (`KEEP` in a request's scope), and how to tell
whether they still may.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from orchgit.api.kept_answers import Keep, KeptBytes

_MAX_BYTES = 16 << 20
_MAX_KEY_BYTES = 8 << 10
_BODY_HEADERS = frozenset((b"content-length", b"transfer-encoding", b"expect"))

Headers = Sequence[tuple[bytes, bytes]]


@dataclass(frozen=True, slots=True)
class _Kept:
    answer: KeptBytes
    size_bytes: int


class KeptRequests:
    """Belongs to one listener and its event loop. `may_answer` says whether this server may answer
    reads now without asking the others."""

    def __init__(self, may_answer: Callable[[], bool]) -> None:
        self._may_answer = may_answer
        self._kept: OrderedDict[tuple[bytes, tuple[tuple[bytes, bytes], ...]], _Kept] = (
            OrderedDict()
        )
        self._bytes = 0

    def find(self, url: bytes, headers: Headers, default: Headers) -> bytes | None:
        """Returns the whole answer to a GET, or None where the app has to give it.

        `default` are the headers of every answer.
        """
        kept = self._kept.get((url, tuple(headers)))
        if kept is None:
            return None
        began_s = time.perf_counter()
        answer = kept.answer
        if not answer.holds() or not self._may_answer():
            return None
        lines = b"".join([b"%s: %s\r\n" % pair for pair in default])
        answer.count(time.perf_counter() - began_s)
        return b"HTTP/1.1 200 OK\r\n%s%s%s" % (lines, answer.head, answer.body)

    def keep_for(self, url: bytes, headers: Headers) -> Keep | None:
        """Returns what keeps the answer to this GET; None for one whose answer is not kept."""
        key = url, tuple(headers)
        key_bytes = len(url) + sum(len(name) + len(value) for name, value in headers)
        if key_bytes > _MAX_KEY_BYTES or any(name in _BODY_HEADERS for name, _ in headers):
            return None
        return partial(self._keep, key, key_bytes)

    def _keep(
        self,
        key: tuple[bytes, tuple[tuple[bytes, bytes], ...]],
        key_bytes: int,
        answer: KeptBytes,
    ) -> None:
        if not self._may_answer():
            return
        earlier = self._kept.pop(key, None)
        if earlier is not None:
            self._bytes -= earlier.size_bytes
        kept = _Kept(answer, key_bytes + len(answer.head) + len(answer.body))
        self._kept[key] = kept
        self._bytes += kept.size_bytes
        while self._bytes > _MAX_BYTES:
            _, dropped = self._kept.popitem(last=False)
            self._bytes -= dropped.size_bytes
