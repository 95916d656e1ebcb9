"""Everything of a cluster beside its jobs, copied into another one over HTTP."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from orchgit.cli.client.http_client import ApiClient, ApiError, quoted
from orchgit.cli.importing.report import ImportReport
from orchgit.cli.printing.output import counted

_NOT_FOUND = 404
_UNANSWERED = (0, 500, 502, 503, 504)
"""Statuses of a cluster that has no answer now, unlike those of one that does not have the kind."""
_ACL_OFF = "ACL support disabled"
_BUILT_IN_POOLS = ("all", "default")
_WITHOUT_EFFECT = ("NodePoolConfiguration", "VaultConfiguration", "ConsulConfiguration")
_WHAT_RAN = "they are not configuration: the jobs start anew, where the new cluster places them"


class NewClusterError(ApiError):
    """The cluster that is imported into refused to answer, or could not be reached."""


@dataclass(frozen=True, slots=True)
class ClusterObjects:
    """Copies from `old` into `new`; None: only tells what there is.

    What the new cluster has already, and has otherwise, stays as it is unless `force` says so.
    `variables`: their values pass through this machine, and the new cluster encrypts them under its
    own root key.
    """

    old: ApiClient
    new: ApiClient | None
    report: ImportReport
    variables: bool = False
    force: bool = False

    def take_all(self) -> None:
        """Takes what others refer to first."""
        for kind, take in (
            ("quotas", self._quotas),
            ("namespaces", self._namespaces),
            ("node pools", self._node_pools),
            ("the scheduler's configuration", self._scheduler_config),
            ("policies", self._policies),
            ("roles", self._roles),
            ("variables", self._variables),
            ("host volumes", self._host_volumes),
            ("CSI volumes", self._csi_volumes),
        ):
            try:
                take()
            except NewClusterError as error:
                self.report.fail(kind, f"the new cluster does not show its own: {error}")
            except ApiError as error:
                why = f"the old cluster does not show them: {error}"
                if error.status in _UNANSWERED:
                    self.report.fail(kind, why)
                else:
                    self.report.leave(kind, why)
        self.report.leave("allocations, deployments, evaluations", _WHAT_RAN)
        self.report.leave(
            "tokens, auth methods and binding rules",
            "their secrets cannot be read; make new ones (`orchgit acl`)",
        )

    # -- kinds -----------------------------------------------------------------------------------

    def _quotas(self) -> None:
        for quota in self.old.get("/v1/quotas"):
            limits = [
                {
                    "RegionLimit": {
                        key: limit["RegionLimit"].get(key) or 0
                        for key in ("CPU", "Cores", "MemoryMB", "MemoryMaxMB")
                    }
                }
                for limit in quota["Limits"] or ()
            ]
            body = {"Name": quota["Name"], "Description": quota["Description"], "Limits": limits}
            self._take(f"quota {quota['Name']}", f"/v1/quota/{quoted(quota['Name'])}", body)

    def _namespaces(self) -> None:
        for each in self.old.get("/v1/namespaces"):
            what = f"namespace {each['Name']}"
            body = _some(each, "Name", "Description", "Meta", "Capabilities", "Quota")
            for name in _WITHOUT_EFFECT:
                if each.get(name):
                    self.report.leave(f"{name} of {what}", "it has no effect here")
            if body != {"Name": "default", "Description": "Default shared namespace"}:
                self._take(what, f"/v1/namespace/{quoted(each['Name'])}", body)

    def _node_pools(self) -> None:
        for each in self.old.get("/v1/node/pools"):
            if each["Name"] not in _BUILT_IN_POOLS:
                body = _some(each, "Name", "Description", "Meta", "SchedulerConfiguration")
                path = f"/v1/node/pool/{quoted(each['Name'])}"
                self._take(f"node pool {each['Name']}", path, body)

    def _scheduler_config(self) -> None:
        path = "/v1/operator/scheduler/configuration"
        found = self.old.get(path)["SchedulerConfig"]
        wanted = {
            key: value
            for key, value in found.items()
            if key not in ("CreateIndex", "ModifyIndex", "PauseEvalBroker")
        }
        if found.get("PauseEvalBroker"):
            self.report.leave("the pause of the old cluster's scheduler", "it would stop this one")
        what = "the scheduler's configuration"
        if self.new is None:
            self.report.leave(what, "name the new cluster by -into")
            return
        known = _of_new(self.new, path)["SchedulerConfig"]
        if _has(known, wanted):
            return
        self._put(what, path, wanted)

    def _policies(self) -> None:
        for each in self.old.get("/v1/acl/policies"):
            what, path = f"policy {each['Name']}", f"/v1/acl/policy/{quoted(each['Name'])}"
            found = self._read(what, path)
            if found is not None:
                body = _some(found, "Name", "Description", "Rules", "JobACL")
                self._take(what, path, body)

    def _roles(self) -> None:
        for each in self.old.get("/v1/acl/roles"):
            name = each["Name"]
            policies = [{"Name": policy["Name"]} for policy in each["Policies"] or ()]
            body = {"Name": name, "Description": each["Description"], "Policies": policies}
            what = f"role {name}"
            if self.new is None:
                self.report.leave(what, "name the new cluster by -into")
                continue
            known = self._known(f"/v1/acl/role/name/{quoted(name)}")
            if known is None:
                self._put(what, "/v1/acl/role", body)
            elif not _has(known, body):
                self._change(what, f"/v1/acl/role/{known['ID']}", {**body, "ID": known["ID"]})

    def _variables(self) -> None:
        namespace = self.old.namespace or "*"
        listed = self.old.get("/v1/vars", namespace=namespace)
        if not self.variables and listed:
            self.report.leave(
                counted(len(listed), "variable"),
                "-variables takes them; the new cluster encrypts them under its own root key",
            )
            return
        for each in listed:
            path, where = f"/v1/var/{quote(each['Path'])}", {"namespace": each["Namespace"]}
            what = f"variable {each['Path']} of namespace {each['Namespace']}"
            found = self._read(what, path, **where)
            if found is None:
                continue
            self._take(what, path, _some(found, "Namespace", "Path", "Items"), **where)
            if each.get("Lock"):
                self.report.leave(f"the lock of {what}", "its holder takes it anew")

    def _host_volumes(self) -> None:
        found = [] if self.new is None else _of_new(self.new, "/v1/nodes")
        nodes = {each["Name"]: each for each in found}
        names = {each["ID"]: each["Name"] for each in self.old.get("/v1/nodes")}
        namespace = self.old.namespace or "*"
        for stub in self.old.get("/v1/volumes", type="host", namespace=namespace):
            what = f"host volume {stub['Name']} of namespace {stub['Namespace']}"
            name = names.get(stub["NodeID"], stub["NodeID"])
            if name not in nodes:
                self.report.leave(
                    what, f"node {name} has not joined the new cluster; import again when it has"
                )
                continue
            path = f"/v1/volume/host/{quoted(stub['ID'])}"
            found = self._read(what, path, namespace=stub["Namespace"])
            if found is None:
                continue
            volume = {
                **_some(found, "Name", "Namespace", "HostPath", "CapacityBytes", "Parameters"),
                "RequestedCapabilities": found.get("RequestedCapabilities"),
                "NodeID": nodes[name]["ID"],
            }
            if any(_is_same_volume(each, volume) for each in self._new_volumes(stub["Namespace"])):
                continue
            self._put(what, "/v1/volume/host/register", {"Volume": volume})

    def _new_volumes(self, namespace: str) -> list[dict[str, Any]]:
        if self.new is None:
            return []
        return list(_of_new(self.new, "/v1/volumes", type="host", namespace=namespace))

    def _csi_volumes(self) -> None:
        namespace = self.old.namespace or "*"
        for each in self.old.get("/v1/volumes", type="csi", namespace=namespace) or ():
            self.report.leave(
                f"CSI volume {each['ID']}",
                "register it anew where its plugin runs (`orchgit volume register`)",
            )

    def _read(self, what: str, path: str, **params: str) -> dict[str, Any] | None:
        try:
            return dict(self.old.get(path, **params))
        except ApiError as error:
            self.report.fail(what, f"the old cluster does not show it: {error}")
            return None

    # -- writing ---------------------------------------------------------------------------------

    def _take(self, what: str, path: str, body: Mapping[str, Any], **params: str) -> None:
        """Stores an object that has its path in both clusters."""
        if self.new is None:
            self.report.leave(what, "name the new cluster by -into")
            return
        known = self._known(path, **params)
        if known is None:
            self._put(what, path, body, **params)
        elif not _has(known, body):
            self._change(what, path, body, **params)

    def _change(self, what: str, path: str, body: Mapping[str, Any], **params: str) -> None:
        if not self.force:
            self.report.leave(what, "the new cluster has another one; -force replaces it")
            return
        self._put(what, path, body, **params)

    def _known(self, path: str, **params: str) -> dict[str, Any] | None:
        assert self.new is not None
        try:
            return dict(_of_new(self.new, path, **params))
        except NewClusterError as error:
            if error.status == _NOT_FOUND or _ACL_OFF in str(error):
                return None
            raise

    def _put(self, what: str, path: str, body: Mapping[str, Any], **params: str) -> None:
        assert self.new is not None
        try:
            self.new.put(path, dict(body), **params)
        except ApiError as error:
            if _ACL_OFF in str(error):
                self.report.leave(what, "the new cluster has no access control (`acl` block)")
            else:
                self.report.fail(what, f"the new cluster refuses it: {error}")
        else:
            self.report.taken(what)


def _of_new(new: ApiClient, path: str, **params: str) -> Any:
    """Returns what the new cluster answers. Raises NewClusterError."""
    try:
        return new.get(path, **params)
    except ApiError as error:
        raise NewClusterError(error.message, error.status) from error


def _some(found: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """Returns the fields of these names that say anything."""
    return {name: found[name] for name in names if found.get(name)}


def _has(known: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Whether an object has all that is wanted; what is more says nothing else."""
    return all(_is_same(known.get(key), value) for key, value in wanted.items())


def _is_same(known: Any, wanted: Any) -> bool:
    if isinstance(wanted, Mapping):
        return isinstance(known, Mapping) and _has(known, wanted)
    if isinstance(wanted, list):
        return (
            isinstance(known, list)
            and len(known) == len(wanted)
            and all(_is_same(*pair) for pair in zip(known, wanted, strict=True))
        )
    return bool(known == wanted) or (not known and not wanted)


def _is_same_volume(known: Mapping[str, Any], volume: Mapping[str, Any]) -> bool:
    return all(known.get(key) == volume.get(key) for key in ("Name", "NodeID"))
