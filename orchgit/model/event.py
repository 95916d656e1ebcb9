"""An event of the event stream."""

from __future__ import annotations

from orchgit.model.base import Model


class Event(Model):
    """`topic` is Job, Evaluation, Allocation, Deployment, Node, Service, Source, Rollout, JobDrift,
    SourceHealthChange, ACLToken, ACLPolicy, ACLRole, ACLAuthMethod or ACLBindingRule."""

    topic: str = ""
    type: str = ""
    key: str = ""
    namespace: str = ""
    filter_keys: list[str] = []
    index: int = 0
    payload: dict[str, object] = {}
    """The object by its topic; the API writes it as it writes that object elsewhere."""


class VariableChange(Model):
    """What an event tells of a variable: never its items."""

    namespace: str
    path: str
    create_index: int
    modify_index: int
    create_time_ns: int
    modify_time_ns: int
    is_deleted: bool = False
