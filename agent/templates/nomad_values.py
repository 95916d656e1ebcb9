"""The variables and services that templates see, with the fields and methods that they rely on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from orchgit.go_templates.values import GoStruct, Strings, Uint64


class GoRecord(GoStruct):
    """A struct of named fields; `text` names the field that it prints as."""

    def __init__(self, go_type: str, fields: Mapping[str, Any], text: str = "") -> None:
        self.go_type = go_type  # type: ignore[misc]
        self._fields = fields
        self._text = text

    def go_fields(self) -> Mapping[str, Any]:
        return self._fields

    def go_text(self) -> str | None:
        return str(self._fields[self._text]) if self._text else None


class NomadVarItem(GoStruct):
    """One item of a variable: it is its value wherever a string is wanted."""

    go_type: ClassVar[str] = "dependency.NomadVarItem"

    def __init__(self, key: str, value: str, parent: NomadVarItems | None) -> None:
        self._key = key
        self._value = value
        self._parent = parent

    def go_fields(self) -> Mapping[str, Any]:
        return {"Key": self._key, "Value": self._value}

    def go_method(self, name: str) -> Callable[..., Any] | None:
        if name == "String":
            return lambda: self._value
        if name == "Parent":
            return lambda: self._parent
        if name == "Metadata":
            return lambda: None if self._parent is None else self._parent.metadata
        return None

    def go_text(self) -> str:
        return self._value

    def go_string(self) -> str:
        return self._value

    def go_json(self) -> Any:
        return self._value


class NomadVarItems(dict[str, Any]):
    """A variable: its items by key, and where it is."""

    go_type: ClassVar[str] = "dependency.NomadVarItems"

    def __init__(self, items: Mapping[str, str], metadata: GoStruct | None) -> None:
        super().__init__({key: NomadVarItem(key, items[key], self) for key in sorted(items)})
        self.metadata = metadata

    @property
    def zero(self) -> NomadVarItem:
        return NomadVarItem("", "", None)

    def go_method(self, name: str) -> Callable[..., Any] | None:
        return {
            "Metadata": lambda: self.metadata,
            "Keys": lambda: Strings(self),
            "Values": lambda: Strings(str(item.go_text()) for item in self.values()),
            "Tuples": self._tuples,
        }.get(name)

    def _tuples(self) -> list[Any]:
        return [
            GoRecord("dependency.NomadVarTuple", {"K": key, "V": item.go_text()})
            for key, item in self.items()
        ]


def variable_metadata(data: Mapping[str, Any]) -> GoStruct:
    """Prints as the path."""
    fields = {
        "Namespace": data["Namespace"],
        "Path": data["Path"],
        **{
            name: Uint64(data.get(name, 0))
            for name in ("CreateIndex", "ModifyIndex", "CreateTime", "ModifyTime")
        },
    }
    return GoRecord("*dependency.NomadVarMeta", fields, text="Path")


class ServiceTags(Strings):
    go_type: ClassVar[str] = "dependency.ServiceTags"


def service_of(data: Mapping[str, Any]) -> GoStruct:
    fields = {
        "ID": data["ID"],
        "Name": data["ServiceName"],
        "Node": data["NodeID"],
        "Address": data["Address"],
        "Port": data["Port"],
        "Datacenter": data["Datacenter"],
        "Tags": ServiceTags(data.get("Tags") or ()),
        "JobID": data["JobID"],
        "AllocID": data["AllocID"],
    }
    return GoRecord("*dependency.NomadService", fields)


def service_names(data: Sequence[Mapping[str, Any]]) -> list[Any]:
    return [
        GoRecord(
            "*dependency.NomadServicesSnippet",
            {"Name": each["ServiceName"], "Tags": ServiceTags(each.get("Tags") or ())},
            text="",
        )
        for each in data
    ]
