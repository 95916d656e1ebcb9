"""The report: Nomad's JobDiff, in its shape and with its names."""

from __future__ import annotations

from enum import StrEnum

from orchgit.model.base import Model


class DiffType(StrEnum):
    """In the order in which reports are sorted."""

    ADDED = "Added"
    DELETED = "Deleted"
    EDITED = "Edited"
    NONE = "None"


class FieldDiff(Model):
    type: str
    name: str
    old: str = ""
    new: str = ""
    annotations: list[str] | None = None


class ObjectDiff(Model):
    type: str
    name: str
    fields: list[FieldDiff] | None = None
    objects: list[ObjectDiff] | None = None


class TaskDiff(Model):
    type: str
    name: str
    fields: list[FieldDiff] | None = None
    objects: list[ObjectDiff] | None = None
    annotations: list[str] | None = None


class TaskGroupDiff(Model):
    """`updates` counts what an evaluation would do with the group's allocations."""

    type: str
    name: str
    fields: list[FieldDiff] | None = None
    objects: list[ObjectDiff] | None = None
    tasks: list[TaskDiff] | None = None
    updates: dict[str, int] | None = None


class JobDiff(Model):
    type: str
    id: str
    fields: list[FieldDiff] | None = None
    objects: list[ObjectDiff] | None = None
    task_groups: list[TaskGroupDiff] | None = None
