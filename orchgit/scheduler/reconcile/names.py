"""Which name indexes of a group are taken: `job.group[i]` with the lowest free i."""

from __future__ import annotations

from collections.abc import Iterable

from orchgit.model.allocation import Allocation


class NameIndex:
    """The indexes in use out of `count`; indexes above it are known but never given."""

    def __init__(
        self, count: int, allocations: Iterable[Allocation], others: Iterable[int] = ()
    ) -> None:
        """`others`: more indexes in use."""
        self._count = count
        self._used = {allocation.name_index for allocation in allocations}.union(others)

    def free(self, index: int) -> None:
        self._used.discard(index)

    def highest(self, number: int) -> set[int]:
        """Give up the `number` highest indexes in use."""
        chosen = set(sorted(self._used, reverse=True)[:number])
        self._used -= chosen
        return chosen

    def lowest_free(self) -> int | None:
        """The lowest free index, in use from now on; None: all are in use."""
        free = (index for index in range(self._count) if index not in self._used)
        chosen = next(free, None)
        if chosen is not None:
            self._used.add(chosen)
        return chosen

    def next(self, number: int) -> list[int]:
        """The `number` lowest free indexes; used twice only when the count is exceeded."""
        chosen: list[int] = []
        index = 0
        while len(chosen) < number and index < self._count:
            if index not in self._used:
                chosen.append(index)
            index += 1
        chosen += range(number - len(chosen))
        self._used.update(chosen)
        return chosen

    def next_canaries(
        self, number: int, canaries: Iterable[Allocation], replaced: Iterable[Allocation]
    ) -> list[int]:
        """Names for canaries: those of allocations to be replaced first, then free ones."""
        existing = {canary.name_index for canary in canaries}
        chosen = [
            index
            for index in sorted({a.name_index for a in replaced})
            if index not in existing and index < self._count
        ][:number]
        rest = (
            i for i in range(self._count) if i not in self._used and i not in {*chosen, *existing}
        )
        chosen += [index for index, _ in zip(rest, range(number - len(chosen)), strict=False)]
        above = self._count
        while len(chosen) < number:
            if above not in existing:
                chosen.append(above)
            above += 1
        self._used.update(chosen)
        return chosen
