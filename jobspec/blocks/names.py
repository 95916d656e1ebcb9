"""Which names are blocks, for the JSON form of a job file."""

from __future__ import annotations

from jobspec.blocks.table import JOB, BlockTable
from jobspec.hcl.json_form import BlockShape


class _Anything:
    """Inside `config`, `meta`, `locals`: every name is an attribute."""

    def block_shape(self, name: str) -> tuple[int, BlockShape] | None:
        return None

    def is_code(self, name: str) -> bool:
        return False


class _Variable(_Anything):
    def block_shape(self, name: str) -> tuple[int, BlockShape] | None:
        return (0, _ANYTHING) if name == "validation" else None

    def is_code(self, name: str) -> bool:
        return name == "type"


class _Dynamic(_Anything):
    """`dynamic` for one kind of block: its content has that block's shape."""

    def __init__(self, table: _Table) -> None:
        self._table = table

    def block_shape(self, name: str) -> tuple[int, BlockShape] | None:
        return (0, _Content(self._table, name))


class _Content(_Anything):
    def __init__(self, table: _Table, type_: str) -> None:
        self._inner = table.block_shape(type_)

    def block_shape(self, name: str) -> tuple[int, BlockShape] | None:
        if name != "content":
            return None
        return (0, self._inner[1] if self._inner else _ANYTHING)

    def is_code(self, name: str) -> bool:
        return name == "iterator"


class _Table(_Anything):
    def __init__(self, table: BlockTable) -> None:
        self._blocks = table

    def block_shape(self, name: str) -> tuple[int, BlockShape] | None:
        if name == "dynamic":
            return (0, _Dynamic(self))
        field = self._blocks.blocks.get(name)
        if field is None or name in self._blocks.attributes:
            return None
        if field.table is None:
            return (0, _ANYTHING)
        return (0 if field.table.label_key is None else 1, _Table(field.table))


class _File(_Anything):
    def block_shape(self, name: str) -> tuple[int, BlockShape] | None:
        return _TOP.get(name)


_ANYTHING = _Anything()
_TOP: dict[str, tuple[int, BlockShape]] = {
    "job": (1, _Table(JOB)),
    "variable": (1, _Variable()),
    "variables": (0, _ANYTHING),
    "locals": (0, _ANYTHING),
}
FILE_SHAPE: BlockShape = _File()
