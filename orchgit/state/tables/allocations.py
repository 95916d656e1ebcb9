"""Allocations: reads that build structs, bulk inserts of placements, and changes of rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import repeat
from typing import cast

from orchgit.model.allocation import Allocation, AllocDeploymentStatus
from orchgit.model.plan import Placements
from orchgit.model.resources import AllocatedResources
from orchgit.state.body_table import both, conditions, starting_with
from orchgit.state.changes import job_key
from orchgit.state.chunks import chunks
from orchgit.state.entry import EntryContext
from orchgit.state.tables.allocation_rows import (
    CHANGE_COLUMNS,
    READ_COLUMNS,
    AllocationRow,
    AllocBody,
    Shared,
    allocation_of,
    encode,
    encode_body,
    shared_id,
)
from orchgit.state.tables.base import TableReads
from orchgit.state.tables.job_summaries import GroupKey, JobSummaryWrites

_CHUNK = 500
_SELECT = f"SELECT {READ_COLUMNS} FROM allocations"  # noqa: S608 (constant names)
_CLIENT_TERMINAL = "client_status IN ('complete', 'failed', 'lost')"
_NAMESAKES = f"""SELECT task_group, node_id FROM allocations
    WHERE namespace IN (SELECT name FROM namespaces WHERE name != ?)
    AND job_id = ? AND NOT {_CLIENT_TERMINAL}"""  # noqa: S608
TERMINAL = f"(desired_status != 'run' OR {_CLIENT_TERMINAL})"


def _which(terminal: bool | None) -> str:
    if terminal is None:
        return ""
    return f" AND {TERMINAL}" if terminal else f" AND NOT {TERMINAL}"


class AllocationReads(TableReads):
    def get(self, alloc_id: str) -> Allocation | None:
        found = self._allocations("id = ?", (alloc_id,))
        return found[0] if found else None

    def has(self, alloc_id: str) -> bool:
        found = self._connection.execute("SELECT 1 FROM allocations WHERE id = ?", (alloc_id,))
        return found.fetchone() is not None

    def all(self, namespace: str | None = None, prefix: str = "") -> list[Allocation]:
        where, values = both(conditions(namespace=namespace), starting_with("id", prefix))
        return self._allocations(where, values)

    def keys(self, namespace: str | None = None, prefix: str = "") -> list[tuple[int, str]]:
        """Returns (create index, id) in order of creation: enough to choose a page of them."""
        where, values = both(conditions(namespace=namespace), starting_with("id", prefix))
        sql = f"SELECT create_index, id FROM allocations WHERE {where or 'TRUE'}"  # noqa: S608
        rows = self._connection.execute(f"{sql} ORDER BY create_index, id", tuple(values))
        return cast(list[tuple[int, str]], rows.fetchall())

    def get_many(self, ids: Iterable[str]) -> list[Allocation]:
        """Returns the allocations that exist, in no particular order."""
        return [
            allocation
            for chunk in chunks(ids, _CHUNK)
            for allocation in self._allocations(f"id IN ({', '.join('?' * len(chunk))})", chunk)
        ]

    def of_rows(self, rows: Iterable[int]) -> list[Allocation]:
        """Returns the allocations of these SQLite rows in the order of their ids."""
        found = [
            allocation
            for chunk in chunks(rows, _CHUNK)
            for allocation in self._allocations(f"row IN ({', '.join('?' * len(chunk))})", chunk)
        ]
        return sorted(found, key=lambda allocation: allocation.id)

    def namesakes_of_job(self, namespace: str, job_id: str) -> list[tuple[str, str]]:
        """Returns (group, node id) of the allocations, not client-terminal, of jobs of this id in
        other namespaces."""
        rows = self._connection.execute(_NAMESAKES, (namespace, job_id)).fetchall()
        return cast(list[tuple[str, str]], rows)

    def of_job(self, namespace: str, job_id: str, all_versions: bool = True) -> list[Allocation]:
        """`all_versions` False: only allocations of the job's current version."""
        where = "namespace = ? AND job_id = ?"
        if all_versions:
            return self._allocations(where, (namespace, job_id))
        version = "(SELECT version FROM jobs WHERE namespace = ? AND id = ?)"
        return self._allocations(
            f"{where} AND job_version = {version}", (namespace, job_id, namespace, job_id)
        )

    def of_version(self, namespace: str, job_id: str, version: int) -> list[Allocation]:
        where = "namespace = ? AND job_id = ? AND job_version = ?"
        return self._allocations(where, (namespace, job_id, version))

    def of_node(self, node_id: str, terminal: bool | None = None) -> list[Allocation]:
        """`terminal` True: desired or client status is terminal; False: neither is; None: all."""
        return self._allocations(f"node_id = ?{_which(terminal)}", (node_id,))

    def occupying_node(self, node_id: str) -> list[Allocation]:
        """Returns the allocations that still use the node's resources: not client-terminal."""
        return self._allocations(f"node_id = ? AND NOT {_CLIENT_TERMINAL}", (node_id,))

    def ids_of_node(self, node_id: str) -> list[str]:
        sql = "SELECT id FROM allocations WHERE node_id = ? ORDER BY id"
        return [cast(str, id_) for (id_,) in self._rows(sql, (node_id,))]

    def of_eval(self, eval_id: str, terminal: bool | None = None) -> list[Allocation]:
        """`terminal` as for `of_node`."""
        return self._allocations(f"eval_id = ?{_which(terminal)}", (eval_id,))

    def count_of_eval(self, eval_id: str) -> int:
        sql = "SELECT COUNT(*) FROM allocations WHERE eval_id = ?"
        return int(self._connection.execute(sql, (eval_id,)).fetchone()[0])

    def nodes_freed_since(self, index: int) -> dict[str, int]:
        """Returns nodes on which an allocation ended after `index` -> index of the latest."""
        sql = f"""SELECT node_id, MAX(modify_index) FROM allocations
            WHERE modify_index > ? AND {_CLIENT_TERMINAL} GROUP BY node_id"""  # noqa: S608
        return {cast(str, node): cast(int, at) for node, at in self._rows(sql, (index,))}

    def count_of_jobs_on(self, node_ids: Iterable[str]) -> int:
        """Returns about how many allocations those jobs have, on any node, that have one on these
        nodes."""
        total = 0
        for chunk in chunks(node_ids, _CHUNK):
            sql = f"""SELECT COUNT(*) FROM allocations a JOIN (
                SELECT DISTINCT namespace, job_id FROM allocations
                WHERE node_id IN ({", ".join("?" * len(chunk))})
                ) j ON a.namespace = j.namespace AND a.job_id = j.job_id"""  # noqa: S608
            total += int(self._connection.execute(sql, tuple(chunk)).fetchone()[0])
        return total

    def of_deployment(self, deployment_id: str) -> list[Allocation]:
        return self._allocations("deployment_id = ? AND deployment_id != ''", (deployment_id,))

    def has_live(self, namespace: str = "", deployment_id: str = "") -> bool:
        """Returns whether the deployment, or else the namespace, has an allocation that is not
        terminal."""
        where = "deployment_id = ? AND deployment_id != ''" if deployment_id else "namespace = ?"
        sql = f"SELECT 1 FROM allocations WHERE {where} AND NOT {TERMINAL} LIMIT 1"  # noqa: S608
        found = self._connection.execute(sql, (deployment_id or namespace,))
        return found.fetchone() is not None

    def of_node_changed_since(self, node_id: str, index: int) -> list[Allocation]:
        """Returns those that a server changed after `index`; reports of the agent do not count."""
        return self._allocations("node_id = ? AND alloc_modify_index > ?", (node_id, index))

    def _allocations(self, where: str, values: Sequence[object]) -> list[Allocation]:
        rows = self._rows(f"{_SELECT} {'WHERE ' + where if where else ''} ORDER BY id", values)
        shared = self._shared({shared_id(row) for row in rows})
        return [allocation_of(row, shared[shared_id(row)]) for row in rows]

    def _shared(self, ids: Iterable[int]) -> dict[int, Shared]:
        sql = "SELECT resources, metrics FROM alloc_shared WHERE id = ?"
        return {
            id_: Shared.decode(*self._connection.execute(sql, (id_,)).fetchone()) for id_ in ids
        }


_INSERT = """INSERT INTO allocations (id, namespace, job_id, job_version, job_type, task_group,
    name_index, node_id, node_name, eval_id, deployment_id, commit_id, rollout_id, desired_status,
    client_status, cpu_shares, memory_mb, memory_max_mb, disk_mb, has_devices, has_cores, ports,
    shared, create_index, modify_index, alloc_modify_index, usage_index,
    create_time_ns, modify_time_ns, body)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 'run', 'pending', ?, ?, ?, ?, ?, ?, ?, ?,
    ?, ?, ?, ?, ?, ?, ?)"""
_UPDATE = """UPDATE allocations SET job_version = ?, deployment_id = ?, desired_status = ?,
    client_status = ?, eval_id = coalesce(?, eval_id), modify_index = ?, alloc_modify_index = ?,
    usage_index = coalesce(?, usage_index), modify_time_ns = ?, body = ? WHERE row = ?"""
_UPDATE_RESOURCES = """UPDATE allocations SET cpu_shares = ?, memory_mb = ?, memory_max_mb = ?,
    disk_mb = ?, has_devices = ?, has_cores = ?, ports = ? WHERE row = ?"""


def _usage(resources: AllocatedResources) -> tuple[int, ...]:
    """Returns the columns of what an allocation uses, from `cpu_shares` to `has_cores`."""
    total = resources.total()
    devices = any(task.devices for task in resources.tasks.values())
    return (
        *(total.cpu_shares, total.memory_mb, total.memory_max_mb, total.disk_mb),
        *(int(devices), int(bool(total.cores))),
    )


def _encoded_ports(resources: AllocatedResources) -> bytes | None:
    return encode(resources.shared.ports) if resources.shared.ports else None


class AllocationWrites(AllocationReads):
    def __init__(self, entry: EntryContext, summaries: JobSummaryWrites) -> None:
        super().__init__(entry.connection)
        self._entry = entry
        self._summaries = summaries

    def insert_placed(self, placements: Placements) -> None:
        """Insert all rows of the placements; their ids must be new."""
        count = len(placements)
        shared = self._insert_shared(placements)
        usage = _usage(placements.resources)
        usages: list[Iterable[object]] = [repeat(value, count) for value in usage]
        if placements.resources_of:
            own = {row: _usage(resources) for row, resources in placements.resources_of.items()}
            usages = list(zip(*(own.get(row, usage) for row in range(count)), strict=True))
        ports = self._ports(placements)
        bodies = _bodies(placements)
        fixed = (
            *(placements.namespace, placements.job_id, placements.job_version),
            *(placements.job_type, placements.task_group),
        )
        links = (
            *(placements.eval_id, placements.deployment_id),
            *(placements.commit_id, placements.rollout_id),
        )
        stamps = (shared, *(self._entry.index,) * 4, *(self._entry.now_ns,) * 2)
        rows = zip(
            placements.alloc_ids,
            *(repeat(value, count) for value in fixed),
            placements.name_indexes,
            placements.node_ids,
            placements.node_names,
            *(repeat(value, count) for value in links),
            *usages,
            ports,
            *(repeat(value, count) for value in stamps),
            bodies,
            strict=True,
        )
        self._connection.executemany(_INSERT, rows)
        key = (placements.namespace, placements.job_id, placements.task_group)
        self._summaries.count(key, "pending", True, count)
        self._note(placements.alloc_ids, placements.node_ids, [key], [placements.deployment_id])

    def _insert_shared(self, placements: Placements) -> int:
        metrics = encode(placements.metrics) if placements.metrics is not None else None
        cursor = self._connection.execute(
            "INSERT INTO alloc_shared (uses, resources, metrics) VALUES (?, ?, ?)",
            (len(placements), encode(placements.resources), metrics),
        )
        return cast(int, cursor.lastrowid)

    def _ports(self, placements: Placements) -> Iterable[bytes | None]:
        if not placements.ports and not placements.resources_of:
            return repeat(None, len(placements))
        ports = [encode(row) if row else None for row in placements.ports or ()]
        ports = ports or [None] * len(placements)
        for row, own in placements.resources_of.items():
            ports[row] = ports[row] or _encoded_ports(own)
        return ports

    def rows(self, ids: Iterable[str]) -> dict[str, AllocationRow]:
        """Returns the allocations that exist by id, to be changed and given to `save`."""
        sql = f"SELECT {CHANGE_COLUMNS} FROM allocations WHERE id IN "  # noqa: S608
        records = (
            AllocationRow.of(row)
            for chunk in chunks(ids, _CHUNK)
            for row in self._rows(f"{sql}({', '.join('?' * len(chunk))})", chunk)
        )
        return {record.id: record for record in records}

    def live_ids_of_job(self, namespace: str, job_id: str) -> list[str]:
        sql = f"""SELECT id FROM allocations WHERE namespace = ? AND job_id = ?
            AND NOT {TERMINAL} ORDER BY row"""  # noqa: S608
        return [cast(str, id_) for (id_,) in self._rows(sql, (namespace, job_id))]

    def save(self, records: Iterable[AllocationRow]) -> None:
        """Store changed rows at this index, and count the changes in the summaries of their
        jobs."""
        records = list(records)
        self._connection.executemany(_UPDATE, map(self._update_of, records))
        for record in records:
            if record.resources is not None:
                usage = _usage(record.resources)
                ports = _encoded_ports(record.resources)
                self._connection.execute(_UPDATE_RESOURCES, (*usage, ports, record.row))
        self._count_changes(records)
        self._note(
            [record.id for record in records],
            {record.node_id for record in records},
            {record.group_key for record in records},
            {record.deployment_id for record in records},
        )

    def _update_of(self, record: AllocationRow) -> tuple[object, ...]:
        return (
            *(record.job_version, record.deployment_id, record.desired_status),
            *(record.client_status, record.eval_id, self._entry.index, record.alloc_modify_index),
            self._entry.index if record.changes_usage else None,
            *(self._entry.now_ns, encode_body(record.body), record.row),
        )

    def _count_changes(self, records: Sequence[AllocationRow]) -> None:
        """Count changes of status; an allocation of a purged job does not count for a new one of
        its id."""
        since = {
            key: self._number("SELECT create_index FROM jobs WHERE namespace = ? AND id = ?", key)
            for key in dict.fromkeys((record.namespace, record.job_id) for record in records)
        }
        for record in records:
            if record.create_index < since[record.namespace, record.job_id]:
                continue
            self._summaries.count(record.group_key, record.old_client_status, record.old_live, -1)
            self._summaries.count(record.group_key, record.client_status, record.live, 1)

    def delete_all(self, ids: Sequence[str]) -> list[AllocationRow]:
        """Delete allocations and the parts that no other shares; returns those that existed."""
        records = list(self.rows(ids).values())
        self._connection.executemany(
            "DELETE FROM allocations WHERE row = ?", [(record.row,) for record in records]
        )
        uses = Counter(record.shared for record in records)
        self._connection.executemany(
            "UPDATE alloc_shared SET uses = uses - ? WHERE id = ?",
            [(count, shared) for shared, count in uses.items()],
        )
        self._connection.executemany(
            "DELETE FROM alloc_shared WHERE id = ? AND uses <= 0", [(shared,) for shared in uses]
        )
        for record in records:
            if record.live:
                self._summaries.uncount_deleted(record.group_key)
        keys = {record.group_key for record in records}
        nodes = {record.node_id for record in records}
        self._connection.executemany(
            "INSERT OR REPLACE INTO freed_nodes VALUES (?, ?)",
            [(node_id, self._entry.index) for node_id in sorted(nodes)],
        )
        self._note([record.id for record in records], nodes, keys, ())
        return records

    def _note(
        self,
        ids: Iterable[str],
        nodes: Iterable[str],
        groups: Iterable[GroupKey],
        deployments: Iterable[str],
    ) -> None:
        self._entry.changed("allocations", ids)
        self._entry.changed("allocations_by_node", nodes)
        self._entry.changed("allocations_by_job", {job_key(ns, job) for ns, job, _ in groups})
        self._entry.changed("allocations_by_deployment", {id_ for id_ in deployments if id_})


def _bodies(placements: Placements) -> Iterable[bytes | None]:
    canaries = set(placements.canary_rows)
    unusual = canaries.union(
        placements.previous_of,
        placements.reschedule_of,
        placements.preempts_of,
        placements.resources_of,
        placements.metrics_of,
    )
    if not unusual:
        return repeat(None, len(placements))
    bodies: list[bytes | None] = [None] * len(placements)
    for row in unusual:
        bodies[row] = encode_body(
            AllocBody(
                previous_allocation=placements.previous_of.get(row, ""),
                reschedule_tracker=placements.reschedule_of.get(row),
                preempted_allocations=placements.preempts_of.get(row),
                resources=placements.resources_of.get(row),
                metrics=placements.metrics_of.get(row),
                deployment_status=(AllocDeploymentStatus(canary=True) if row in canaries else None),
            )
        )
    return bodies
