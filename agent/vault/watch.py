"""Says whether the node's Vault can be used, and of which version it is."""

from __future__ import annotations

from collections.abc import Callable

import structlog

from agent.vault.tokens import Vault
from orchgit.clock import Clock
from orchgit.errors import OrchgitError

_log = structlog.get_logger(component="agent")

_INTERVAL_S = 15.0
_LOST_AFTER = 3
"""Rounds in a row that fail before the node is said to have no Vault."""


async def watch_vault(
    vault: Vault, clock: Clock, changed: Callable[[dict[str, str], dict[str, str]], None]
) -> None:
    """Asks until it is cancelled; `changed(attributes, links)` is called with what is new."""
    known: dict[str, str] = {}
    failures = 0
    while True:
        try:
            facts = await vault.facts()
            failures = 0
        except OrchgitError as error:
            failures += 1
            if failures == 1:
                _log.warning("cannot use Vault now", error=str(error))
            facts = {} if failures >= _LOST_AFTER else known
        if facts != known:
            known = facts
            changed(facts, {})
        await clock.sleep(_INTERVAL_S)
