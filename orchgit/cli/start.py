"""The program `orchgit`: says its version at once, and leaves everything else to the commands."""

from __future__ import annotations

import sys

from orchgit import __version__

_VERSION = (["version"], ["-version"], ["--version"], ["-v"])
_INTERRUPTED = 130


def main() -> None:
    """Runs the command line."""
    try:
        if sys.argv[1:] in _VERSION and sys.stdout is not None:
            sys.stdout.write(f"orchgit v{__version__}\n")
            sys.stdout.flush()
            return
    except OSError:
        # The commands say what is wrong with the stream.
        pass
    try:
        from orchgit.cli.main import main as run

        run()
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)
