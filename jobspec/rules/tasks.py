"""Tasks and what they are made of."""

from __future__ import annotations

import posixpath
import re
from typing import Any

from jobspec.evaluation.runtime_text import without_references
from jobspec.rules.findings import Findings, listed
from jobspec.rules.identities import check_identities
from jobspec.rules.targets import check_targets
from jobspec.rules.task_services import check_task_services
from orchgit.durations import to_text
from orchgit.go_quote import quote
from orchgit.model.group import TaskGroup
from orchgit.model.resources import Resources
from orchgit.model.task import LogConfig, Task, TaskArtifact, Template

_ACTION_NAME = re.compile(r"[a-zA-Z0-9-_]{1,128}")
_SECRET_NAME = re.compile(r"[a-zA-Z0-9_]{1,128}")
_CHECKSUM_BYTES = {"md5": 16, "sha1": 20, "sha256": 32, "sha512": 64}
_CSI_TYPES = ("node", "controller", "monolith")
_CHANGE_MODES = ("noop", "restart", "signal", "script")
_PROPAGATION = ("", "private", "host-to-task", "bidirectional")
_SELINUX = ("", "Z", "z")


def check_task(findings: Findings, task: Task, group: TaskGroup) -> None:
    findings.check(not task.name, "Missing task name", "Name")
    findings.check(
        "/" in task.name or "\\" in task.name, "Task name cannot include slashes", "Name"
    )
    findings.check("\0" in task.name, "Task name cannot include null characters", "Name")
    findings.check(not task.driver, "Missing task driver", "Driver")
    findings.check(task.kill_timeout_ns < 0, "KillTimeout must be a positive value", "KillTimeout")
    deadline_ns = group.update.progress_deadline_ns if group.update is not None else 0
    if 0 < deadline_ns < task.kill_timeout_ns:
        # The misspelt word is Nomad's own.
        findings.add(
            f"KillTimout ({to_text(task.kill_timeout_ns)}) longer than the group's "
            f"ProgressDeadline ({to_text(deadline_ns)})",
            "KillTimeout",
        )
    findings.check(
        task.shutdown_delay_ns < 0, "ShutdownDelay must be a positive value", "ShutdownDelay"
    )
    resources = findings.at("Resources")
    _resources(resources, task.resources)
    findings.nest("", resources)
    logs = findings.at("LogConfig")
    _logs(logs, task.log_config, group.ephemeral_disk.size_mb)
    findings.nest("", logs)
    check_targets(findings, task.constraints, task.affinities, task_level=True)
    if task.services:
        services = findings.at()
        check_task_services(services, task, group)
        findings.nest("", services)
    _artifacts(findings, task)
    _vault(findings, task.vault)
    _templates(findings, task)
    _actions(findings, task)
    _lifecycle(findings, task)
    _mounts(findings, task, group)
    _csi_plugin(findings, task.csi_plugin_config)
    check_identities(findings, task)
    _secrets(findings, task)


def _resources(findings: Findings, resources: Resources) -> None:
    least = findings.at()
    if resources.cores < 0:
        findings.add(f"minimum core count is 0; got {resources.cores}", "Cores")
    if resources.cores == 0 and resources.cpu < 1:
        least.add(f"minimum CPU value is 1; got {resources.cpu}", "CPU")
    if resources.memory_mb < 10:
        least.add(f"minimum MemoryMB value is 10; got {resources.memory_mb}", "MemoryMB")
    findings.nest("", least)
    if resources.secrets_mb < 0:
        findings.add(f"SecretsMB value ({resources.secrets_mb}) cannot be negative", "SecretsMB")
    if resources.secrets_mb > resources.memory_mb:
        findings.add(
            f"SecretsMB value ({resources.secrets_mb}) cannot be larger than MemoryMB value "
            f"({resources.memory_mb})",
            "SecretsMB",
        )
    for index, device in enumerate(resources.devices or ()):
        inner = findings.at("Devices", index)
        parts = device.name.split("/", 2)
        inner.check(
            not device.name or not all(parts),
            "device name must be given as one of the following: type, vendor/type, or "
            "vendor/type/name",
        )
        inner.check(device.count < 1, "invalid device count: must be at least 1", "Count")
        check_targets(inner, device.constraints, device.affinities)
        findings.nest(f"device {index + 1} failed validation", inner)
    findings.check(
        resources.cores > 0 and resources.cpu > 0,
        "Task can only ask for 'cpu' or 'cores' resource, not both.",
        "Cores",
    )
    if resources.numa is not None:
        findings.check(
            resources.numa.affinity not in ("none", "prefer", "require"),
            "numa affinity must be one of none, prefer, or require",
            "NUMA",
        )
    limit = resources.memory_max_mb
    if limit not in (0, -1) and limit < resources.memory_mb:
        findings.add(
            f"MemoryMaxMB value ({limit}) should be larger than MemoryMB value "
            f"({resources.memory_mb})",
            "MemoryMaxMB",
        )


def _logs(findings: Findings, logs: LogConfig, disk_mb: int) -> None:
    if logs.max_files < 1:
        findings.add(f"minimum number of files is 1; got {logs.max_files}", "MaxFiles")
    if logs.max_file_size_mb < 1:
        findings.add(f"minimum file size is 1MB; got {logs.max_file_size_mb}", "MaxFileSizeMB")
    total_mb = logs.max_files * logs.max_file_size_mb
    if disk_mb <= total_mb:
        findings.add(
            f"log storage ({total_mb} MB) must be less than requested disk capacity ({disk_mb} MB)"
        )


def _templates(findings: Findings, task: Task) -> None:
    destinations: dict[str, int] = {}
    for index, template in enumerate(task.templates or ()):
        inner = findings.at("Templates", index)
        _template(inner, template)
        findings.nest(f"Template {index + 1} validation failed", inner)
        before = destinations.setdefault(template.dest_path, index + 1)
        findings.check(
            before != index + 1 and bool(template.dest_path),
            f"Template {index + 1} has same destination as {before}",
            "Templates",
            index,
        )


def _template(findings: Findings, template: Template) -> None:
    findings.check(
        not template.source_path and not template.embedded_tmpl,
        "Must specify a source path or have an embedded template",
    )
    if not template.dest_path:
        findings.add("Must specify a destination for the template")
    else:
        findings.check(
            _escapes(template.dest_path), "destination escapes allocation directory", "DestPath"
        )
    mode = template.change_mode
    findings.check(
        mode not in _CHANGE_MODES,
        "Invalid change mode. Must be one of the following: noop, signal, script, restart",
        "ChangeMode",
    )
    if mode == "signal":
        findings.check(
            not template.change_signal,
            "Must specify signal value when change mode is signal",
            "ChangeSignal",
        )
        findings.check(template.envvars, "cannot use signals with env var templates", "Envvars")
    if mode == "script":
        script = template.change_script
        if script is None:
            findings.add(
                "must specify change script configuration value when change mode is script"
            )
        else:
            findings.check(
                not script.command,
                "must specify script path value when change mode is script",
                "ChangeScript",
            )
    findings.check(template.splay_ns < 0, "Must specify positive splay value", "Splay")
    if template.perms and not re.fullmatch(r"[0-7]{1,12}", template.perms):
        name = quote(template.perms)
        findings.add(
            f"Failed to parse {name} as octal: strconv.ParseUint: parsing {name}: invalid syntax",
            "Perms",
        )
    _wait(findings, template.wait)


def _wait(findings: Findings, wait: dict[str, Any] | None) -> None:
    low, high = (wait or {}).get("Min"), (wait or {}).get("Max")
    if isinstance(low, int) and isinstance(high, int):
        findings.check(
            low > high, f"wait min {to_text(low)} is greater than max {to_text(high)}", "Wait"
        )


def _escapes(destination: str) -> bool:
    """Whether a path leaves the allocation's directory, seen from the task's."""
    path = without_references(destination, "x")
    return posixpath.normpath(posixpath.join("task", path.lstrip("/"))).startswith("..")


def _artifacts(findings: Findings, task: Task) -> None:
    for index, artifact in enumerate(task.artifacts or ()):
        inner = findings.at("Artifacts", index)
        _artifact(inner, artifact)
        findings.nest(f"Artifact {index + 1} validation failed", inner)


def _artifact(findings: Findings, artifact: TaskArtifact) -> None:
    findings.check(not artifact.getter_source, "source must be specified", "GetterSource")
    findings.check(
        artifact.getter_mode not in ("any", "file", "dir"),
        f"invalid artifact mode {quote(artifact.getter_mode)}; must be one of: any, file, dir",
        "GetterMode",
    )
    findings.check(
        _escapes(artifact.relative_dest), "destination escapes allocation directory", "RelativeDest"
    )
    checksum = (artifact.getter_options or {}).get("checksum")
    problem = None if checksum is None else _checksum_problem(checksum)
    findings.check(problem is not None, str(problem), "GetterOptions")


def _checksum_problem(checksum: str) -> str | None:
    text = checksum.strip()
    if "${" in text:
        return None
    if not text:
        return "checksum value cannot be empty"
    kind, colon, value = text.partition(":")
    if not colon or ":" in value:
        return f'checksum must be given as "type:value"; got {quote(text)}'
    for char in value:
        if char not in "0123456789abcdefABCDEF":
            return f"invalid checksum: encoding/hex: invalid byte: U+{ord(char):04X} '{char}'"
    if len(value) % 2:
        return "invalid checksum: encoding/hex: odd length hex string"
    expected = _CHECKSUM_BYTES.get(kind)
    if expected is None:
        return f"unsupported checksum type: {kind}"
    if len(value) // 2 != expected:
        return f"invalid {kind} checksum: {value}"
    return None


def _vault(findings: Findings, vault: dict[str, Any] | None) -> None:
    if vault is None:
        return
    inner = findings.at("Vault")
    mode = vault.get("ChangeMode")
    if mode == "signal":
        inner.check(
            not vault.get("ChangeSignal"),
            'Signal must be specified when using change mode "signal"',
            "ChangeSignal",
        )
    elif mode not in ("noop", "restart"):
        inner.add(f"Unknown change mode {quote(str(mode))}", "ChangeMode")
    findings.nest("Vault validation failed", inner)


def _lifecycle(findings: Findings, task: Task) -> None:
    if task.lifecycle is None:
        return
    hook = task.lifecycle.hook
    if not hook:
        findings.add("Lifecycle validation failed: no lifecycle hook provided", "Lifecycle")
    elif hook not in ("prestart", "poststart", "poststop"):
        findings.add(f"Lifecycle validation failed: invalid hook: {hook}", "Lifecycle")


def _mounts(findings: Findings, task: Task, group: TaskGroup) -> None:
    for index, mount in enumerate(task.volume_mounts or ()):
        place = ("VolumeMounts", index)
        inner = findings.at(*place)
        inner.check(
            mount.propagation_mode not in _PROPAGATION,
            f'volume mount has an invalid propagation mode: "{mount.propagation_mode}"',
        )
        inner.check(
            mount.selinux_label not in _SELINUX,
            f'volume mount has an invalid SELinux label: "{mount.selinux_label}"',
        )
        if inner.messages:
            findings.messages.append(
                f'Volume Mount ({index}) is invalid: "{listed(inner.messages)}"'
            )
            findings.leaves.extend(inner.leaves)
        if not mount.volume:
            findings.add(f"Volume Mount ({index}) references an empty volume", *place)
        elif mount.volume not in (group.volumes or {}):
            findings.add(
                f"Volume Mount ({index}) references undefined volume {mount.volume}", *place
            )


def _csi_plugin(findings: Findings, plugin: dict[str, Any] | None) -> None:
    if plugin is None:
        return
    findings.check(
        not plugin.get("ID"), "CSIPluginConfig must have a non-empty PluginID", "CSIPluginConfig"
    )
    type_ = str(plugin.get("Type"))
    findings.check(
        type_ not in _CSI_TYPES,
        "CSIPluginConfig PluginType must be one of 'node', 'controller', or 'monolith', got: "
        f"{quote(type_)}",
        "CSIPluginConfig",
    )
    mount, stage = str(plugin.get("MountDir")), str(plugin.get("StagePublishBaseDir"))
    if f"{posixpath.normpath(stage)}/".startswith(f"{posixpath.normpath(mount)}/"):
        findings.add(
            "CSIPluginConfig StagePublishBaseDir must not be a subdirectory of MountDir, got: "
            f"StagePublishBaseDir={quote(stage)} MountDir={quote(mount)}",
            "CSIPluginConfig",
        )


def _actions(findings: Findings, task: Task) -> None:
    names: set[str] = set()
    for index, action in enumerate(task.actions or ()):
        place = ("Actions", index)
        findings.check(action.name in names, f"Action {action.name} defined multiple times", *place)
        names.add(action.name)
        inner = findings.at(*place)
        inner.check(not action.command, "command cannot be empty")
        inner.check(
            not _ACTION_NAME.fullmatch(action.name), f"invalid name '{action.name}'", "Name"
        )
        findings.nest(f"Action {action.name} validation failed", inner)


def _secrets(findings: Findings, task: Task) -> None:
    for index, secret in enumerate(task.secrets or ()):
        inner = findings.at("Secrets", index)
        name = str(secret.get("Name") or "")
        if not name:
            inner.add("secret name cannot be empty")
        else:
            inner.check(
                not _SECRET_NAME.fullmatch(name),
                "secret name must match regex ^[a-zA-Z0-9_]{1,128}$",
                "Name",
            )
        inner.check(not secret.get("Provider"), "secret provider cannot be empty", "Provider")
        inner.check(not secret.get("Path"), "secret path cannot be empty", "Path")
        findings.nest(f"Secret {quote(name)} is invalid", inner)
