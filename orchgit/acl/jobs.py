"""What registering and stopping a job needs, and what of it is missing. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from orchgit.acl.rights import Rights
from orchgit.model.job import Job

REGISTER = ("submit-job", "register-job")
STOP = ("submit-job", "deregister-job")
_WRITABLE = ("mount-readwrite",)


def missing_in_namespace(rights: Rights, namespace: str, capabilities: Sequence[str]) -> str:
    """Returns the capability that is missing, in words; '' where one of `capabilities` is
    granted."""
    if any(rights.allows_namespace(namespace, each) for each in capabilities):
        return ""
    return f'{capabilities[0]} in namespace "{namespace}"'


def missing_to_register(
    rights: Rights, namespace: str, job: Job | None, capabilities: Sequence[str] = REGISTER
) -> str:
    """Returns what is missing to register the job, in words, or ''.

    One of the capabilities in the job's namespace, and what the job's volumes need: the rule
    `host_volume` of each host volume, `csi-mount-volume` where there is a CSI volume.
    """
    if missing := missing_in_namespace(rights, namespace, capabilities):
        return missing
    groups = job.task_groups if job is not None else ()
    for each in (volume for group in groups for volume in (group.volumes or {}).values()):
        if each.type == "csi" and not rights.allows_namespace(namespace, "csi-mount-volume"):
            return f'csi-mount-volume in namespace "{namespace}"'
        modes = (*_WRITABLE, "mount-readonly") if each.read_only else _WRITABLE
        if each.type == "host" and not any(
            rights.allows_host_volume(each.source, mode) for mode in modes
        ):
            return f'{modes[-1]} of host_volume "{each.source}"'
    return ""
