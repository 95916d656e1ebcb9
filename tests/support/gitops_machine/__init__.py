"""People, failures and time at several sources, in any order; the model says what must be so.

Run by `tests/integration/test_gitops_machine.py`; `tests/benchmarks/gitops_machine.py` runs longer.
Each module has the rules of one topic, `rig.py` what they share and what must hold after each step.
"""

from __future__ import annotations

from tests.support.gitops_machine.by_hand import HandRules
from tests.support.gitops_machine.commits import CommitRules
from tests.support.gitops_machine.gates import GateRules
from tests.support.gitops_machine.going_back import GoingBackRules
from tests.support.gitops_machine.sources import SourceRules

__all__ = ["GitopsMachine"]


class GitopsMachine(CommitRules, GoingBackRules, HandRules, SourceRules, GateRules):
    """Up to three built-in sources, five jobs, and everything that people do to them."""
