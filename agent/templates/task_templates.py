"""What the templates of one task were rendered to, and what they read."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from agent.templates.cluster_reads import ClusterReads, Reader, Subscription
from agent.templates.queries import Query


@dataclass(slots=True)
class TemplateState:
    """One template as it was rendered last; None: not yet."""

    source: str | None = None
    """The template's own text, read before any template of the task is rendered."""
    text: bytes | None = None
    variables: dict[str, str] = field(default_factory=dict)
    queries: frozenset[Query] = frozenset()


@dataclass
class TaskTemplates:
    """One for each task of the node; it outlives the task's attempts. Templates are named by their
    position in the task."""

    reads: ClusterReads
    reader: Reader
    states: dict[int, TemplateState] = field(default_factory=dict)
    _subscription: Subscription | None = None

    @property
    def subscription(self) -> Subscription:
        """What the task reads; it begins with the first use."""
        if self._subscription is None:
            self._subscription = self.reads.subscribe(self.reader)
        return self._subscription

    def read_again(self) -> None:
        """What the task's own rights give is read at once: it has others now."""
        if self._subscription is not None:
            self._subscription.read_again()

    def close(self) -> None:
        """The task has ended, or the agent stops."""
        if self._subscription is not None:
            self._subscription.close()
            self._subscription = None

    def state(self, position: int) -> TemplateState:
        return self.states.setdefault(position, TemplateState())

    def positions_of(self, queries: Iterable[Query]) -> set[int]:
        """The templates that read any of these."""
        asked = set(queries)
        return {at for at, state in self.states.items() if state.queries & asked}

    @property
    def are_live(self) -> bool:
        """Whether a template reads what may change."""
        return any(state.queries for state in self.states.values())

    def drop_unread(self) -> None:
        """Stop reading what no template reads any more."""
        kept = {query for state in self.states.values() for query in state.queries}
        self.subscription.keep(kept)

    def variables(self) -> dict[str, str]:
        """Those of all templates; of two with one name, the later template's."""
        found: dict[str, str] = {}
        for position in sorted(self.states):
            found |= self.states[position].variables
        return found
