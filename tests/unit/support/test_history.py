"""What the checks of clusters find: histories that cannot be true are refused, others are not."""

from __future__ import annotations

from tests.support.history import History
from tests.support.linearizable import Operation

KEY = "k"


def write(
    history: History, began: float, ended: float | None, expected: int, index: int
) -> Operation:
    """A check-and-set; `ended` None: its outcome is not known."""
    operation = Operation(True, history.new_value(), began, ended)
    history.keys[KEY].operations.append(operation)
    if ended is not None:
        history.written(KEY, operation, expected, index)
    return operation


def read(history: History, began: float, ended: float, value: int, index: int) -> None:
    history.read(KEY, Operation(False, value, began, ended), index)


def test_one_after_the_other() -> None:
    history = History()
    first = write(history, 1, 2, expected=0, index=10)
    second = write(history, 3, 4, expected=10, index=11)
    read(history, 5, 6, second.value, 11)
    assert history.problem() is None
    read(history, 3.1, 4.1, first.value, 10)
    assert history.problem() is None


def test_unknown_write_may_come_late() -> None:
    history = History()
    unknown = write(history, 1, None, expected=0, index=10)
    read(history, 2, 3, 0, 0)
    read(history, 8, 9, unknown.value, 10)
    assert history.problem() is None


def test_lost_write() -> None:
    history = History()
    write(history, 1, 2, expected=0, index=10)
    read(history, 3, 4, 0, 0)
    assert "happened while 0 was there" in str(history.problem())


def test_stale_read() -> None:
    history = History()
    first = write(history, 1, 2, expected=0, index=10)
    second = write(history, 3, 4, expected=10, index=11)
    read(history, 5, 6, second.value, 11)
    read(history, 7, 8, first.value, 10)
    assert "still there" in str(history.problem())


def test_two_sets_for_one_check() -> None:
    """Each client alone would be content: the times overlap."""
    history = History()
    write(history, 1, 9, expected=0, index=10)
    write(history, 1.1, 9.1, expected=0, index=11)
    assert "was set for index 0, but 10 had been there" in str(history.problem())


def test_one_index_of_two_values() -> None:
    history = History()
    write(history, 1, 9, expected=0, index=10)
    write(history, 1.1, 9.1, expected=0, index=10)
    assert "index 10 was" in str(history.problem())


def test_operation_within_another_is_linearizable() -> None:
    """Values 1 and 3 were there for long; 2 came and went at once, which only fits between."""
    history = History()
    first = write(history, 1, 2, expected=0, index=10)
    read(history, 9, 10, first.value, 10)
    write(history, 4, 5, expected=10, index=11)
    assert "happened while" in str(history.problem())
