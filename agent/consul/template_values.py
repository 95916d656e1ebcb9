"""What Consul tells of nodes and of its service mesh, in the fields that templates read. Pure.

Raises LookupError, TypeError, ValueError or AttributeError for what is not Consul's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

Answer = Mapping[str, Any]


def node(entry: Answer) -> dict[str, Any]:
    return {
        "ID": entry.get("ID", ""),
        "Node": entry["Node"],
        "Address": entry.get("Address", ""),
        "Datacenter": entry.get("Datacenter", ""),
        "TaggedAddresses": entry.get("TaggedAddresses") or {},
        "Meta": entry.get("Meta") or {},
    }


def node_with_services(answer: Answer | None) -> dict[str, Any]:
    if answer is None or not answer.get("Node"):
        return {"Node": None, "Services": []}
    services = [
        {
            "ID": each.get("ID", ""),
            "Service": each["Service"],
            "Tags": sorted(each.get("Tags") or ()),
            "Meta": each.get("Meta") or {},
            "Port": each.get("Port") or 0,
            "Address": each.get("Address", ""),
            "EnableTagOverride": bool(each.get("EnableTagOverride")),
        }
        for each in (answer.get("Services") or {}).values()
    ]
    services.sort(key=lambda one: (one["Service"], one["ID"]))
    return {"Node": node(answer["Node"]), "Services": services}


def root(entry: Answer) -> dict[str, Any]:
    return {
        "ID": entry["ID"],
        "Name": entry.get("Name", ""),
        "RootCertPEM": entry["RootCert"],
        "Active": bool(entry.get("Active")),
        **_indexes(entry),
    }


def leaf(entry: Answer, service: str) -> dict[str, Any]:
    return {
        "SerialNumber": entry.get("SerialNumber", ""),
        "CertPEM": entry["CertPEM"],
        "PrivateKeyPEM": entry["PrivateKeyPEM"],
        "Service": entry.get("Service", service),
        "ServiceURI": entry.get("ServiceURI", ""),
        "ValidAfter": entry.get("ValidAfter", ""),
        "ValidBefore": entry.get("ValidBefore", ""),
        **_indexes(entry),
    }


def partition(entry: Answer) -> dict[str, Any]:
    return {"Name": entry["Name"], "Description": entry.get("Description", "")}


def peering(entry: Answer) -> dict[str, Any]:
    return {
        "Name": entry["Name"],
        "Partition": entry.get("Partition", ""),
        "State": entry.get("State", ""),
        "PeerID": entry.get("PeerID", ""),
        "PeerServerName": entry.get("PeerServerName", ""),
        "PeerServerAddresses": entry.get("PeerServerAddresses") or [],
        "Meta": entry.get("Meta") or {},
    }


def exported_services(answer: Iterable[Answer]) -> list[dict[str, Any]]:
    """One entry for each service, with all who may use it."""
    peers: dict[str, set[str]] = {}
    partitions: dict[str, set[str]] = {}
    for each in (one for entry in answer for one in entry.get("Services") or ()):
        for consumer in each.get("Consumers") or ():
            peers.setdefault(each["Name"], set()).add(consumer.get("Peer") or "")
            partitions.setdefault(each["Name"], set()).add(consumer.get("Partition") or "")
    return [
        {
            "Service": name,
            "Peers": sorted(peers[name] - {""}),
            "Partitions": sorted(partitions[name] - {""}),
        }
        for name in sorted(peers)
    ]


def _indexes(entry: Answer) -> dict[str, int]:
    return {name: entry.get(name) or 0 for name in ("CreateIndex", "ModifyIndex")}
