"""The program `orchgit`: says its version at once, and leaves everything else to the commands."""

from __future__ import annotations

import sys

from orchgit import __version__

_VERSION = (["version"], ["-version"], ["--version"], ["-v"])


def main() -> None:
    """Runs the command line."""
    if sys.argv[1:] in _VERSION:
        sys.stdout.write(f"orchgit v{__version__}\n")
        return
    from orchgit.cli.main import main as run

    run()
