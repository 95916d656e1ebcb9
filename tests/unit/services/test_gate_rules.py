"""Gates and prune guards that a source may not have."""

from __future__ import annotations

import pytest

from orchgit.errors import InvalidInputError
from orchgit.model.gates import GatePolicy, Window
from orchgit.model.source import PrunePolicy
from orchgit.model.window_text import parse_window
from orchgit.services.gitops.gate_rules import check_gates, check_prune


def test_useful_gates_are_accepted() -> None:
    windows = [parse_window("allow 0 9 * * 1-5 8h Europe/Berlin"), parse_window("deny @daily 1h")]
    check_gates(GatePolicy(windows=windows, approvals=2, require_fit=True, health="revert"))
    check_prune(PrunePolicy(wildcard=True, claims="allowed"))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        pytest.param({"approvals": -1}, "approvals must be within", id="negative"),
        pytest.param({"approvals": 21}, "approvals must be within", id="many"),
        pytest.param({"health": "heal"}, "health gate must be one of", id="health"),
        pytest.param({"health_deadline_ns": 5}, "health deadline must be", id="deadline"),
        pytest.param({"windows": [Window("allow", "@daily", 0)]}, "duration", id="duration"),
        pytest.param({"windows": [parse_window("allow @daily 1000h")]}, "duration", id="long"),
        pytest.param({"windows": [Window("maybe", "@daily", 10**12)]}, "action", id="action"),
        pytest.param(
            {"windows": [parse_window("deny 99 * * * * 1h")]}, "cannot read cron", id="cron"
        ),
        pytest.param(
            {"windows": [parse_window("deny @daily 1h Mars/Base")]}, "time zone", id="zone"
        ),
        pytest.param({"windows": [parse_window("deny @daily 1h")] * 51}, "at most 50", id="50"),
    ],
)
def test_gate_without_a_meaning_is_refused(fields: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        check_gates(GatePolicy(**fields))  # type: ignore[arg-type]


def test_prune_guard_without_a_meaning_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="share must be"):
        check_prune(PrunePolicy(max_share_percent=101))
    with pytest.raises(InvalidInputError, match="claims must be one of refused, named, allowed"):
        check_prune(PrunePolicy(claims="maybe"))
