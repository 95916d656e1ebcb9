"""Quotas: how much the allocations of the namespaces that name one may take together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from msgspec import field

from orchgit.model.base import Model
from orchgit.model.resources import AllocatedResources

CPU, CORES, MEMORY, MEMORY_MAX = "cpu", "cores", "memory", "memory_max"


class QuotaAmounts(Model):
    """What allocations take. `cpu` is in MHz, without tasks that reserve cores; `memory_max_mb` is
    `memory_mb` of tasks that may not use more."""

    cpu: int = 0
    cores: int = 0
    memory_mb: int = 0
    memory_max_mb: int = 0

    def add(self, other: QuotaAmounts, times: int = 1) -> None:
        self.cpu += other.cpu * times
        self.cores += other.cores * times
        self.memory_mb += other.memory_mb * times
        self.memory_max_mb += other.memory_max_mb * times

    def by_name(self) -> dict[str, int]:
        """Returns the amounts by the names that explanations use."""
        return {
            CPU: self.cpu,
            CORES: self.cores,
            MEMORY: self.memory_mb,
            MEMORY_MAX: self.memory_max_mb,
        }


class QuotaLimit(Model):
    """The limits in one region. An amount of 0 sets no limit, a negative one allows nothing."""

    region: str = ""
    region_limit: QuotaAmounts = field(default_factory=QuotaAmounts)

    def limits(self) -> dict[str, int]:
        """Returns what is limited, by the names that explanations use."""
        amounts = self.region_limit.by_name()
        return {name: max(0, amount) for name, amount in amounts.items() if amount}


class QuotaSpec(Model):
    """A quota. Namespaces name it, and share what it allows."""

    name: str = ""
    description: str = ""
    limits: list[QuotaLimit] = []
    create_index: int = 0
    modify_index: int = 0

    def allowed(self) -> dict[str, int]:
        """Returns what is limited: of several limits the lowest."""
        found: dict[str, int] = {}
        for limit in self.limits:
            for name, amount in limit.limits().items():
                found[name] = min(amount, found.get(name, amount))
        return found


def amounts_of(resources: AllocatedResources, cores: int | None = None) -> QuotaAmounts:
    """Returns what one allocation takes; `cores` is how many it reserves, where they are not yet
    chosen."""
    total = resources.total()
    of_cores = sum(
        task.cpu.cpu_shares for task in resources.tasks.values() if task.cpu.reserved_cores
    )
    return QuotaAmounts(
        cpu=total.cpu_shares - of_cores,
        cores=len(total.cores or ()) if cores is None else cores,
        memory_mb=total.memory_mb,
        memory_max_mb=total.memory_max_mb,
    )


@dataclass(frozen=True, slots=True)
class QuotaRoom:
    """`left` is by the names of `QuotaAmounts.by_name`: the limit less what the live allocations of
    the quota's namespaces take. What is missing has no limit."""

    name: str
    left: Mapping[str, int]
