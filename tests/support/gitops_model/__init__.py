"""Which content of each job must be registered, and why: the rules of gitops, told a second time.

The model knows nothing of the product's code. It is told what people did and says what must be
there afterwards. Read `facts.py`, `cluster.py` (changes by hand), `commits.py` (what a commit
does), `gates.py` (when it may), `drift.py` (what becomes of changes by hand) and `model.py`.
"""

from tests.support.gitops_model.facts import DELETION, Files, JobKind, Registered, Spec
from tests.support.gitops_model.model import GitopsModel
from tests.support.gitops_model.source import ModelCommit, ModelSource

__all__ = [
    "DELETION",
    "Files",
    "GitopsModel",
    "JobKind",
    "ModelCommit",
    "ModelSource",
    "Registered",
    "Spec",
]
