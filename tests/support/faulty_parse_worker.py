"""The real parsing process, but a file's name may say that something goes wrong with it."""

from __future__ import annotations

import os
import signal
import sys
import time
from typing import BinaryIO

from orchgit.gitops.parsing.messages import WorkerMessage
from orchgit.gitops.parsing.port import Inputs
from orchgit.gitops.parsing.worker import ParseWorker

STANDS_STILL_S = 0.8


class FaultyWorker(ParseWorker):
    def _parsed(self, path: str, content: bytes, inputs: Inputs) -> WorkerMessage:
        if "hang" in path:
            signal.pause()
        if "spin" in path:
            while True:
                pass
        if "stand-still" in path:
            _stand_still()
        if "killed" in path:
            os.kill(os.getpid(), signal.SIGKILL)
        if "crash" in path:
            print("something broke", file=sys.stderr, flush=True)
            os._exit(3)
        if "greedy" in path:
            bytearray(4 << 30)
        if "environment" in path:
            content = content.replace(b"ENVIRONMENT", " ".join(sorted(os.environ)).encode())
        return super()._parsed(path, content, inputs)


def _stand_still() -> None:
    """This process is stopped, and goes on when its child has used the time of a file."""
    stopped = os.getpid()
    if os.fork() == 0:
        while time.process_time() < STANDS_STILL_S:
            pass
        os.kill(stopped, signal.SIGCONT)
        os._exit(0)
    os.kill(stopped, signal.SIGSTOP)


def main() -> None:
    outgoing: BinaryIO = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    if sys.argv[1:] == ["refuses"]:
        sys.exit("cannot start: no such luck")
    FaultyWorker(sys.stdin.buffer, outgoing).serve()


if __name__ == "__main__":
    main()
