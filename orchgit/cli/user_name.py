"""The name under which a person uses the command line."""

from __future__ import annotations

import getpass
import os


def user_name() -> str:
    """Returns ORCHGIT_USER, or the name of the person's account on this machine, or '': a claim,
    which the server records and does not check."""
    try:
        return (os.environ.get("ORCHGIT_USER") or getpass.getuser())[:100]
    except (KeyError, OSError):
        return ""
