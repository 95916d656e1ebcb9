"""Prints sources: their health, how following them goes, and what a sync came to."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

from orchgit.cli.printing.output import ago, duration, heading, pairs, plain, short, styled, table
from orchgit.cli.printing.tokens import token_row

_SECOND_NS = 1_000_000_000
_COUNTED = ("Healthy", "Progressing", "Degraded", "Held", "Drifted")


def show_sources(found: Iterable[dict[str, Any]], verbose: bool) -> None:
    """Prints one line for each source."""
    table(
        ("Name", "Kind", "URL", "Ref", "Applied", "Checked", "Jobs", "Health", "Why"),
        (
            (
                plain(each["Name"]),
                each["Kind"],
                plain(each["URL"] or "-"),
                plain(each["Ref"].removeprefix("refs/heads/")),
                short(each["Status"]["AppliedCommit"] or "-", verbose),
                ago(each["Check"]["LastCheck"]),
                each["Health"]["Jobs"]["Total"],
                styled(each["Health"]["Status"]),
                _first_reason(each["Health"]),
            )
            for each in found
        ),
        empty="No sources yet: `orchgit source add NAME [URL]`",
    )


def show_source(data: dict[str, Any]) -> None:
    """Prints one source: its settings, its health with every reason, and how its checks go."""
    seen, health, check = data["Status"], data["Health"], data["Check"]
    jobs = health["Jobs"]
    no_commit = "<none yet>" if check["Known"] and not check["Error"] else "<not known>"
    counts = [f"{jobs[name]} {name.lower()}" for name in _COUNTED if jobs[name]]
    deadline = "from the jobs' progress deadlines"
    if data["RolloutDeadline"]:
        deadline = duration(data["RolloutDeadline"])
    pairs(
        (
            ("Name", plain(data["Name"])),
            ("Kind", data["Kind"]),
            ("URL", plain(data["URL"])),
            ("Repository", plain(data["Repository"])),
            ("Ref", plain(data["Ref"])),
            ("Tags", plain(_tag_policy(data["Tags"]))),
            ("Paths", plain(", ".join(data["Paths"]))),
            ("Exclude", plain(", ".join(data["Exclude"]))),
            ("Namespace", plain(data["Namespace"])),
            ("Region", plain(data["Region"])),
            ("Authorities", "given with the source" if data["CaCertificates"] else ""),
            ("Adopts", "jobs of removed sources" if data["Adopt"] else ""),
            ("Policies", plain(", ".join(data.get("Policies") or []))),
            ("Depends on", plain(", ".join(data["DependsOn"]))),
            ("Rollout deadline", deadline),
            ("Drift policy", plain(_drift_policy(data["Drift"]))),
            ("Gates", plain(_gates(data["Gates"]))),
            ("Prune", plain(_prune(data["Prune"]))),
            ("Health", styled(health["Status"])),
            ("Since", ago(health["Since"]) if health.get("Since") else ""),
            ("Jobs", f"{jobs['Total']}" + (f" ({', '.join(counts)})" if counts else "")),
            ("Paused" if data["Paused"] else "Resumed", _pause_record(data["Pause"])),
            token_row(data.get("Token")),
            ("Applied commit", seen["AppliedCommit"] or "<none yet>"),
            ("Applied rollout", short(seen["AppliedRollout"])),
            ("Remote commit", health["RemoteCommit"] or no_commit),
            ("Why it differs", plain(health["Difference"])),
            ("Last check", ago(check["LastCheck"])),
            ("Last success", ago(check["LastSuccess"])),
            ("Next check", _next_try(check, data["Paused"])),
            ("Last error", plain(seen["LastError"])),
            ("Error since", ago(check["ErrorSince"]) if check["ErrorSince"] else ""),
            ("Quarantined", ", ".join(short(each) for each in seen["Quarantined"])),
        )
    )
    if health["Reasons"]:
        heading("Reasons")
        table(
            ("Status", "Job", "Why"),
            (
                (styled(each["Status"]), _job(each), plain(each["Text"]))
                for each in health["Reasons"]
            ),
        )


def _gates(policy: dict[str, Any]) -> str:
    """Returns what commits wait for, and what happens to one that fails; '' for nothing."""
    parts = [
        " ".join(
            part
            for part in (each["Action"], each["Cron"], duration(each["Duration"]), each["TimeZone"])
            if part
        )
        for each in policy["Windows"]
    ]
    if policy["Approvals"]:
        whose = ", the pusher's too" if policy["PusherMayApprove"] else ""
        parts.append(f"{policy['Approvals']} approval{'s' * (policy['Approvals'] != 1)}{whose}")
    parts += ["room for all work"] if policy["RequireFit"] else []
    if policy["Health"] == "revert":
        limit = duration(policy["HealthDeadline"]) if policy["HealthDeadline"] else ""
        parts.append("goes back if it fails" + (f", or is not healthy in {limit}" if limit else ""))
    return "; ".join(parts)


def _prune(policy: dict[str, Any]) -> str:
    """Returns which deletions a commit may cause."""
    if not policy["Enabled"]:
        return "no job is deleted"
    wildcard = ", wildcard trailers" if policy["Wildcard"] else ""
    claims = f"jobs with claims: {policy['Claims']}"
    return f"{policy['MaxSharePercent']} % without a trailer{wildcard}, {claims}"


def _drift_policy(policy: dict[str, Any]) -> str:
    """Returns what becomes of changes by hand."""
    after = f" after {duration(policy['Delay'])}" if policy["Action"] != "report" else ""
    ignored = f", ignores {', '.join(policy['Ignore'])}" if policy["Ignore"] else ""
    return f"{policy['Action']}{after}{ignored}"


def sync_text(name: str, answer: dict[str, Any]) -> str:
    """Returns one line that says what a round of the source came to."""
    result, text = answer["Result"], str(answer["Text"])
    commit = short(answer["CommitID"])
    if result == "applied":
        rollout = short(answer["RolloutID"])
        return f"Applied commit {commit} in rollout {rollout}."
    if result == "waiting":
        return f"Commit {commit} waits: {text}"
    if result == "unchanged":
        return f"Nothing new: {f'commit {commit} is applied' if commit else text}."
    if result == "held":
        return f"Applied nothing: commit {commit} is held, as {text}."
    if result == "refused":
        return f"Refused commit {commit}:\n{text}"
    if result == "paused":
        return f"Checked nothing: source {name} is {text}"
    return text


def _first_reason(health: dict[str, Any]) -> str:
    if not health["Reasons"]:
        return ""
    first, *others = health["Reasons"]
    job = f"{_job(first)}: " if first["JobID"] else ""
    return job + plain(first["Text"]) + (f" (and {len(others)} more)" if others else "")


def _job(reason: dict[str, Any]) -> str:
    if not reason["JobID"]:
        return "-"
    where = "" if reason["Namespace"] == "default" else f"{reason['Namespace']}/"
    return plain(where + reason["JobID"])


def _next_try(check: dict[str, Any], paused: bool) -> str:
    if paused:
        return "when the source is resumed"
    if not check["Known"]:
        return "<not known: this server does not lead, or has not checked yet>"
    failures = check["Failures"]
    why = f" ({failures} failed check{'s' * (failures != 1)} in a row)" if failures else ""
    if check["UnderWay"]:
        return "now" + why
    return f"in {duration(check['NextTry'] - time.time_ns() + _SECOND_NS // 2)}" + why


def _pause_record(record: dict[str, Any]) -> str:
    """Returns who paused or resumed a source, when, until when and why; '' if nobody did."""
    if not record["At"]:
        return ""
    parts = [ago(record["At"])]
    if record["By"]:
        parts.append(f"by {plain(record['By'])}")
    if record["Until"]:
        parts.append(f"for another {duration(record['Until'] - time.time_ns())}")
    why = f": {plain(record['Reason'])}" if record["Reason"] else ""
    return " ".join(parts) + why


def _tag_policy(tags: dict[str, Any]) -> str:
    """Returns text like `that begin with shop/v, pre-releases too`; '' for the default."""
    prefix = f"that begin with {tags['Prefix']}" if tags["Prefix"] else ""
    return ", ".join(filter(None, (prefix, "pre-releases too" if tags["Prereleases"] else "")))
