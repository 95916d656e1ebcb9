"""Whole clusters on a virtual clock, network and disk: the rules hold, and broken rules are found.

More seeds: `python -m tests.benchmarks.simulate_raft --seeds 100000 --first-seed 0`.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from orchgit.raft.core import RaftCore
from tests.support import raft_mutants
from tests.support.linearizable import Operation, explain
from tests.support.raft_disk import MemoryLog
from tests.support.raft_simulation import Simulation, Violation

SEEDS = 500
BATCH = 100
RARE = (157, 408, 74, 2338)
"""Seeds that found what most do not: broken rules are looked for with them first, then with the
others."""


@pytest.mark.parametrize("first", range(0, SEEDS, BATCH))
def test_simulated_clusters_keep_their_promises(first: int) -> None:
    elected, answered, installed, refused, changed, lost, full, stood = 0, 0, 0, 0, 0, 0, 0, 0
    for seed in range(first, first + BATCH):
        simulation = Simulation(seed)
        try:
            simulation.run()
        except Violation as violation:
            raise AssertionError(f"seed {seed}: {violation}") from violation
        elected += simulation.elections
        answered += sum(one.ended is not None for one in simulation.history)
        installed += simulation.installations
        refused += simulation.refusals
        changed += simulation.changes
        lost += simulation.lost_disks
        full += simulation.full_leaders
        stood += simulation.standstills
    # The faults bite: more than one leader each, and yet most operations are answered.
    assert elected > 2 * BATCH
    assert answered > 100 * BATCH
    assert installed > BATCH // 10
    assert refused > BATCH
    assert changed > BATCH
    assert lost > BATCH // 10
    assert full > BATCH // 20
    assert stood > BATCH


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_thousands_of_clusters() -> None:
    for seed in range(SEEDS, 10_000):
        Simulation(seed).run()


def _found(core: type[RaftCore] = RaftCore, log: type[MemoryLog] = MemoryLog) -> str | None:
    for seed in (*RARE, *(seed for seed in range(SEEDS) if seed not in RARE)):
        try:
            Simulation(seed, core, log).run()
        except Violation as violation:
            return str(violation)
    return None


@pytest.mark.parametrize(
    "mutant",
    [
        raft_mutants.TruncatesAtEveryAppend,
        raft_mutants.ForgetsItsVote,
        raft_mutants.ReadsWithoutAsking,
        raft_mutants.VotesForAnyLog,
        raft_mutants.CommitsWhatItWasNotSent,
        raft_mutants.SnapshotTakesEntriesBack,
        raft_mutants.ConfirmsWhatItTookBack,
        raft_mutants.AppliesWhatItTookBack,
        raft_mutants.KeepsTheLeadWithoutRoom,
        raft_mutants.CountsLearners,
        raft_mutants.ChangesTwoAtOnce,
        raft_mutants.AppliesConfigurationsWhenCommitted,
        raft_mutants.KeepsConfigurationsThatWereCut,
        raft_mutants.ActsBeforeItIsAdmitted,
        raft_mutants.TakesItsStandstillForSilence,
    ],
)
def test_deliberate_bug_is_found(mutant: type[RaftCore]) -> None:
    assert _found(mutant), f"{mutant.__name__} survives {SEEDS} seeds"


def test_disk_that_forgets_is_found() -> None:
    assert _found(log=raft_mutants.ForgetfulLog)


def test_same_seed_gives_the_same_run() -> None:
    one, two = Simulation(7), Simulation(7)
    one.run()
    two.run()
    assert one.history == two.history
    assert one.events == two.events


def test_same_seed_gives_the_same_run_in_another_process() -> None:
    """Nothing may depend on the order of a set of strings."""
    code = (
        "from tests.support.raft_simulation import Simulation\n"
        "for seed in range(3):\n"
        "    one = Simulation(seed); one.run(); print(one.events, len(one.history))"
    )
    said = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            check=True,
            capture_output=True,
        ).stdout
        for hash_seed in ("1", "2")
    }
    assert len(said) == 1


def _write(value: int, began: float, ended: float | None) -> Operation:
    return Operation(True, value, began, ended)


def _read(value: int, began: float, ended: float) -> Operation:
    return Operation(False, value, began, ended)


@pytest.mark.parametrize(
    ("history", "fine"),
    [
        ([_write(1, 1, 2), _read(1, 3, 4)], True),
        ([_write(1, 1, 2), _read(0, 3, 4)], False),
        ([_write(1, 1, 4), _read(0, 2, 3)], True),
        ([_write(1, 1, None), _read(1, 5, 6), _read(0, 7, 8)], False),
        ([_write(1, 1, None), _read(0, 5, 6), _read(1, 7, 8)], True),
        ([_write(1, 1, None), _read(0, 5, 6)], True),
        ([_write(1, 1, 2), _write(2, 3, 4), _read(1, 5, 6)], False),
        ([_write(1, 1, 10), _write(2, 1.5, 9), _read(1, 11, 12), _read(2, 13, 14)], False),
        ([_write(1, 1, 2), _write(2, 3, 4), _read(1, 2.5, 3.5), _read(2, 3.6, 5)], True),
        ([_read(1, 1, 2), _write(1, 3, 4)], False),
        ([_read(9, 1, 2)], False),
        ([_write(1, 1, 2), _read(1, 9, 10), _write(2, 4, 5)], False),
    ],
)
def test_checker_of_histories(history: list[Operation], fine: bool) -> None:
    assert (explain(history) is None) is fine
