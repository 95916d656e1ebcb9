"""Workload identities."""

from __future__ import annotations

import re
from typing import Any

from jobspec.rules.findings import Findings
from orchgit.go_quote import quote
from orchgit.model.task import Task

_NAME = re.compile(r"[a-zA-Z0-9-_]{1,128}")


def check_identities(findings: Findings, task: Task) -> None:
    if task.identity is not None:
        inner = findings.at("Identity")
        check_identity(inner, {**task.identity, "Name": "default"})
        inner.check(bool(task.identity.get("TTL")), "ttl for default identity not yet supported")
        findings.nest('Identity "default" is invalid', inner)
    names: set[str] = set()
    for index, identity in enumerate(task.identities or ()):
        inner = findings.at("Identities", index)
        check_identity(inner, identity)
        name = str(identity.get("Name") or "")
        findings.nest(f"Identity {quote(name)} is invalid", inner)
        findings.check(
            name in names,
            f"Identity {quote(name)} is invalid: duplicate identity name",
            "Identities",
            index,
        )
        names.add(name)


def check_identity(findings: Findings, identity: dict[str, Any]) -> None:
    name = str(identity.get("Name") or "")
    findings.check(
        bool(name) and not _NAME.fullmatch(name),
        f"invalid name {quote(name)}. Must match regex ^[a-zA-Z0-9-_]{{1,128}}$",
        "Name",
    )
    for index, audience in enumerate(identity.get("Audience") or (), 1):
        findings.check(not audience, f"an empty string is an invalid audience ({index})")
    mode = identity.get("ChangeMode") or ""
    if mode == "signal":
        findings.check(
            not identity.get("ChangeSignal"),
            'change_signal must be specified when using change_mode="signal"',
            "ChangeSignal",
        )
    elif mode not in ("", "noop", "restart"):
        findings.add(f"invalid change_mode: {mode}", "ChangeMode")
    signal = str(identity.get("ChangeSignal") or "")
    if signal and mode != "signal":
        findings.add(
            f'can only use change_signal={quote(signal)} with change_mode="signal"', "ChangeSignal"
        )
    findings.check(
        bool(identity.get("Filepath")) and not identity.get("File"),
        "file parameter must be true in order to specify filepath",
        "Filepath",
    )
    ttl = identity.get("TTL") or 0
    findings.check(isinstance(ttl, int) and ttl < 0, "ttl must be >= 0", "TTL")
