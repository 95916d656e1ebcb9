"""The names of what a policy may grant, and what the coarse policies stand for."""

from __future__ import annotations

from collections.abc import Iterable

DENY = "deny"
"""As a policy or a capability: nothing is allowed, whatever else grants it."""
READ = "read"
LIST = "list"
WRITE = "write"
SCALE = "scale"

_READ_JOBS = (
    "list-jobs",
    "parse-job",
    "read-job",
    "csi-list-volume",
    "csi-read-volume",
    "read-job-scaling",
    "list-scaling-policies",
    "read-scaling-policy",
    "host-volume-read",
)
_WRITE_JOBS = (
    *_READ_JOBS,
    "scale-job",
    "submit-job",
    "dispatch-job",
    "read-logs",
    "read-fs",
    "alloc-exec",
    "alloc-lifecycle",
    "csi-mount-volume",
    "csi-write-volume",
    "submit-recommendation",
    "host-volume-create",
)
_SCALE_JOBS = (
    "list-scaling-policies",
    "read-scaling-policy",
    "read-job-scaling",
    "scale-job",
    "read-job",
)
NAMESPACE_POLICIES = {
    DENY: (DENY,),
    READ: _READ_JOBS,
    WRITE: _WRITE_JOBS,
    SCALE: _SCALE_JOBS,
}
"""What each coarse policy of a namespace stands for, in the order in which Nomad shows it."""

GITOPS_CAPABILITIES = (
    "gitops-read",
    "gitops-sync",
    "gitops-approve",
    "gitops-revert",
    "gitops-source",
    "git-push",
    "git-force",
)
GITOPS_POLICIES = {
    READ: ("gitops-read",),
    WRITE: ("gitops-read", "gitops-sync", "gitops-revert", "gitops-source", "git-push"),
}
"""What `gitops { policy = ... }` in a namespace stands for. Approving a gate and rewriting history
are granted by name only."""
READ_GITOPS = ("gitops-read", "read-job")
"""Each of them allows to see what sources of the namespace do."""

NAMESPACE_CAPABILITIES = frozenset(
    (
        DENY,
        *_WRITE_JOBS,
        *GITOPS_CAPABILITIES,
        "alloc-node-exec",
        "cancel-deployment",
        "csi-register-plugin",
        "delete-service-registration",
        "deregister-job",
        "evaluate-job",
        "fail-deployment",
        "force-periodic-job",
        "gc-allocation",
        "host-volume-delete",
        "host-volume-register",
        "host-volume-write",
        "pause-allocation",
        "pause-deployment",
        "plan-job",
        "promote-deployment",
        "purge-job",
        "register-job",
        "revert-job",
        "sentinel-override",
        "set-alloc-health-deployment",
        "stable-job",
        "tag-job-version",
        "unblock-deployment",
    )
)
_IMPLIED = {
    "host-volume-write": (
        "host-volume-register",
        "host-volume-create",
        "host-volume-delete",
        "host-volume-read",
    ),
    "host-volume-register": ("host-volume-create", "host-volume-read"),
    "host-volume-create": ("host-volume-read",),
}
VARIABLE_CAPABILITIES = frozenset((LIST, READ, WRITE, "destroy", DENY))
OPERATOR_CAPABILITIES = frozenset(
    (DENY, "license-read", "snapshot-save", "keyring-rotate", "keyring-read", "keyring-delete")
)
OPERATOR_POLICIES = {
    DENY: (DENY,),
    READ: ("license-read", "keyring-read"),
    WRITE: ("license-read", "snapshot-save", "keyring-rotate", "keyring-read", "keyring-delete"),
}
NODE_POOL_CAPABILITIES = frozenset((DENY, "delete", READ, WRITE))
NODE_POOL_POLICIES = {DENY: (DENY,), READ: (READ,), WRITE: ("delete", READ, WRITE)}
HOST_VOLUME_CAPABILITIES = frozenset((DENY, "mount-readonly", "mount-readwrite"))
HOST_VOLUME_POLICIES = {
    DENY: (DENY,),
    READ: ("mount-readonly",),
    WRITE: ("mount-readonly", "mount-readwrite"),
}


def with_implied(capabilities: Iterable[str]) -> list[str]:
    """Returns the capabilities of a namespace with those that they imply, without repeats."""
    named = list(capabilities)
    implied = (other for each in named for other in _IMPLIED.get(each, ()))
    return list(dict.fromkeys((*named, *implied)))


def with_listing(capabilities: Iterable[str]) -> list[str]:
    """Returns the capabilities of a variables path: reading implies listing; deny stands alone."""
    named = list(dict.fromkeys(capabilities))
    if DENY in named:
        return [DENY]
    return [*named, LIST] if READ in named and LIST not in named else named
