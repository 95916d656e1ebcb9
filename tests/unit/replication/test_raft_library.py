"""The library is the one that was read: what is overridden or relied on has not changed."""

from __future__ import annotations

import ast
import hashlib
import inspect
from importlib.metadata import version
from pathlib import Path

import pysyncobj
import pytest
from pysyncobj import SyncObj
from pysyncobj.journal import Journal
from pysyncobj.transport import Transport

import orchgit

METHODS = {
    "__init__": "09df12cd7fd7d727",
    "_applyCommand": "827f207d515b2d64",
    "_checkCommandsToApply": "a386a8079361d204",
    "_onTick": "cc9eb08232d005ba",
    "_isLeader": "56c32c31db26cdc0",
    "_getLeader": "90e3b8391a79e851",
    "_SyncObj__applyLogEntries": "073db677773b5a2d",
    "_SyncObj__doApplyCommand": "1ea7aa506e950d0a",
    "_SyncObj__parseChangeClusterRequest": "b2d5d695b12e592f",
    "_SyncObj__tryLogCompaction": "c2f8a0ec14cc7312",
    "_SyncObj__getEntries": "e29c4b33293b2101",
    "_SyncObj__getCurrentLogIndex": "e5af22ca246686bd",
    "_SyncObj__getCurrentLogTerm": "1cb8867e6a13d397",
    "_SyncObj__onBecomeLeader": "5a3fd97bc17dc1cf",
    "_SyncObj__setCurrentTerm": "0ad5bf456ac06bd3",
    "_SyncObj__setState": "2c1f239f7bd79b39",
    "_SyncObj__sendAppendEntries": "9cb9073128c392fa",
    "_SyncObj__onMessageReceived": "ddfe34b6c0282179",
    "_SyncObj__callErrCallback": "6037c14ef64c2763",
    "Journal": "8375f2a66c8600e6",
    "Transport": "9b0212a7af6123e7",
}


def digest(subject: object) -> str:
    return hashlib.sha256(inspect.getsource(subject).encode()).hexdigest()[:16]  # type: ignore[arg-type]


def test_the_version_is_the_pinned_one() -> None:
    assert version("pysyncobj") == "0.3.17"
    pyproject = Path(orchgit.__path__[0]).parent / "pyproject.toml"
    assert '"pysyncobj==0.3.17"' in pyproject.read_text()


@pytest.mark.parametrize("name", METHODS)
def test_a_method_that_is_relied_on_has_not_changed(name: str) -> None:
    """If this fails, read the new source, adapt `raft_node.py`, then take the new digest."""
    subjects: dict[str, object] = {"Journal": Journal, "Transport": Transport}
    subject = subjects.get(name) or getattr(SyncObj, name)
    assert digest(subject) == METHODS[name], f"pysyncobj's {name} is not what raft_node.py expects"


def test_every_override_is_watched() -> None:
    source = Path(orchgit.__path__[0]) / "replication" / "raft_node.py"
    (node,) = [one for one in ast.walk(ast.parse(source.read_text()))
               if isinstance(one, ast.ClassDef) and one.name == "RaftNode"]  # fmt: skip
    methods = {one.name for one in node.body if isinstance(one, ast.FunctionDef)}
    overridden = {name for name in methods if hasattr(SyncObj, name)}
    assert overridden - {"__init__"} <= METHODS.keys()
    assert {name for name in methods if name.startswith("_SyncObj")} <= overridden


def test_nothing_here_unpickles() -> None:
    """The library's own unpickling is replaced (see RaftNode); ours has none."""
    for file in (Path(orchgit.__path__[0]) / "replication").rglob("*.py"):
        assert "import pickle" not in file.read_text(), file
    assert "pickle.loads" in inspect.getsource(pysyncobj.syncobj), "the reason for the overrides"
