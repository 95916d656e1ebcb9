"""Decodes blocks of a job file into the tree of the API, driven by the table of blocks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jobspec.blocks.dynamic import ScopedBlock, dynamic_type, expand
from jobspec.blocks.free_form import decode_free
from jobspec.blocks.scalars import CONVERTERS, string_map, strings
from jobspec.blocks.shorthand import SHORT_FORMS
from jobspec.blocks.table import BlockField, BlockTable
from jobspec.errors import Diagnostics, HclError, did_you_mean
from jobspec.evaluation.evaluate import Scope, SilentError, final
from jobspec.evaluation.numbers import Null
from jobspec.evaluation.values import ConvertError
from jobspec.hcl.tree import Attribute, Block, Body, Label, start_of

_STEPS_A_BLOCK = 12
"""A block is a dict with every field that it may have."""


class Origins:
    """The block that each decoded dict came from, so that a later problem finds its place."""

    def __init__(self) -> None:
        self._by_id: dict[int, tuple[dict[str, Any], ScopedBlock, BlockTable]] = {}

    def record(self, decoded: dict[str, Any], found: ScopedBlock, table: BlockTable) -> None:
        self._by_id[id(decoded)] = (decoded, found, table)

    def find(self, decoded: object) -> tuple[ScopedBlock, BlockTable] | None:
        entry = self._by_id.get(id(decoded))
        return None if entry is None else (entry[1], entry[2])


class Decoder:
    """Collects problems and goes on; the parts that could be decoded are returned all the same."""

    def __init__(self, diagnostics: Diagnostics) -> None:
        self.diagnostics = diagnostics
        self.origins = Origins()

    def block(self, table: BlockTable, found: ScopedBlock) -> dict[str, Any]:
        if found.scope.outer is not None:  # made by `dynamic`; the others are written in the file
            found.scope.budget.charge(_STEPS_A_BLOCK)
        decoded = table.empty.copy()
        self.origins.record(decoded, found, table)
        if table.label_key is not None:
            self._label(table, table.label_key, found, decoded)
        elif found.labels:
            self._extra_label(found, found.labels[0], "no labels are expected")
        self.body(table, found, decoded)
        return decoded

    def body(self, table: BlockTable, found: ScopedBlock, decoded: dict[str, Any]) -> None:
        body, scope = found.body, found.scope
        if table.name in SHORT_FORMS:
            self._guard(lambda: SHORT_FORMS[table.name](body, scope, decoded))
        else:
            for attribute in body.attributes.values():
                self._attribute(table, attribute, scope, decoded)
        if body.blocks:
            self._blocks(table, body, scope, decoded)
        for name in table.required:
            if name not in body.attributes:
                self.diagnostics.report(
                    f'Missing required argument: the argument "{name}" is required.',
                    body.start,
                    body.start,
                )

    # -- attributes -------------------------------------------------------------------------

    def _attribute(
        self, table: BlockTable, attribute: Attribute, scope: Scope, decoded: dict[str, Any]
    ) -> None:
        field = table.attributes.get(attribute.name)
        if field is None:
            self._unsupported_argument(table, attribute)
            return
        expr = attribute.expr
        try:
            value = final(expr, scope)
            if type(value) is Null:
                if not field.nullable or field.kind == "duration":
                    raise ConvertError(f"{field.kind} required, but have null")
                decoded[field.key] = None
            elif field.kind == "map":
                decoded[field.key] = string_map(value)
            else:
                decoded[field.key] = CONVERTERS[field.kind](value)
        except ConvertError as error:
            what = "duration value" if field.kind == "duration" else "value type"
            self.diagnostics.report(
                f"Unsuitable {what}: {error}.", start_of(expr, scope.text), expr.end
            )
        except HclError as error:
            self._add(error)

    def _unsupported_argument(self, table: BlockTable, attribute: Attribute) -> None:
        name = attribute.name
        if self.diagnostics.full:
            return
        if name in table.blocks:
            hint = f'Did you mean to define a block of type "{name}"?'
        else:
            hint = did_you_mean(name, table.known)
        self.diagnostics.report(
            f'Unsupported argument: an argument named "{name}" is not expected here.',
            attribute.start,
            attribute.end,
            hint,
        )

    # -- blocks -----------------------------------------------------------------------------

    def _blocks(self, table: BlockTable, body: Body, scope: Scope, decoded: dict[str, Any]) -> None:
        first = {n: a.start for n, a in body.attributes.items() if n in table.blocks}
        for block in body.blocks:
            if block.type == "dynamic":
                self._guard(lambda b=block: self._dynamic(table, b, scope, decoded, first))  # type: ignore[misc]
                continue
            field = table.blocks.get(block.type)
            if field is None:
                self._unsupported_block(table, block.type, block.start, block.type_end)
                continue
            self._place(
                field,
                ScopedBlock(block.type, block.labels, block.body, scope, block),
                decoded,
                first,
            )

    def _dynamic(
        self,
        table: BlockTable,
        block: Block,
        scope: Scope,
        decoded: dict[str, Any],
        first: dict[str, int],
    ) -> None:
        type_ = dynamic_type(block, self.diagnostics)
        if type_ is None:
            return
        field = table.blocks.get(type_)
        if field is None:
            label = block.labels[0]
            self._unsupported_block(table, type_, label.start, label.end)
            return
        labelled = field.table is not None and field.table.label_key is not None
        for found in expand(block, type_, labelled, scope):
            self._place(field, found, decoded, first)

    def _unsupported_block(self, table: BlockTable, type_: str, start: int, end: int) -> None:
        if self.diagnostics.full:
            return
        if type_ in table.attributes:
            hint = f'Did you mean to define argument "{type_}"? If so, use the equals sign.'
        else:
            hint = did_you_mean(type_, table.known)
        self.diagnostics.report(
            f'Unsupported block type: blocks of type "{type_}" are not expected here.',
            start,
            end,
            hint,
        )

    def _place(
        self, field: BlockField, found: ScopedBlock, decoded: dict[str, Any], first: dict[str, int]
    ) -> None:
        key, how = field.key, field.how
        if how == "many":
            assert field.table is not None
            item = self.block(field.table, found)
            if decoded.get(key) is None:
                decoded[key] = [item]
            else:
                decoded[key].append(item)
        elif how == "keyed":
            assert field.table is not None
            item = self.block(field.table, found)
            decoded[key] = {**(decoded.get(key) or {}), item["Name"]: item}
        elif self._is_first(found, first):
            decoded[key] = self._single(field, found)

    def _is_first(self, found: ScopedBlock, first: dict[str, int]) -> bool:
        block, type_ = found.block, found.type
        before = first.get(type_)
        if before is None:
            first[type_] = block.start
            return True
        line, column = self.diagnostics.source.position(before)
        self.diagnostics.report(
            f"Duplicate {type_} block: only one is allowed; another was defined at line {line}, "
            f"column {column}.",
            block.start,
            block.end,
        )
        return False

    def _single(self, field: BlockField, found: ScopedBlock) -> Any:
        if field.table is not None:
            return self.block(field.table, found)
        if found.labels:
            self._extra_label(found, found.labels[0], "no labels are expected")
        if field.how == "free":
            return decode_free(found.body, found.scope, self._add)
        if field.how == "lists":
            return self._map(found, strings)
        return self._map(found, CONVERTERS["string"])

    def _map(self, found: ScopedBlock, convert: Callable[[Any], Any]) -> dict[str, Any]:
        """A block whose attribute names are the keys, as `meta` and `env`."""
        result: dict[str, Any] = {}
        for attribute in found.body.attributes.values():
            expr = attribute.expr
            try:
                value = final(expr, found.scope)
                if type(value) is Null:
                    raise ConvertError("string required, but have null")
                result[attribute.name] = convert(value)
            except ConvertError as error:
                self.diagnostics.report(
                    f"Unsuitable value type: {error}.", start_of(expr, found.scope.text), expr.end
                )
            except HclError as error:
                self._add(error)
        for block in found.body.blocks:
            self.diagnostics.report(
                "Unsuitable value type: string required, but have a block.",
                block.open,
                block.open + 1,
            )
        return dict(sorted(result.items()))

    # -- labels -----------------------------------------------------------------------------

    def _label(
        self, table: BlockTable, key: str, found: ScopedBlock, decoded: dict[str, Any]
    ) -> None:
        labels = found.labels
        if not labels:
            self.diagnostics.report(
                f"Missing {table.label_name} for {found.type}: all {found.type} blocks must have "
                f"1 label ({table.label_name}).",
                found.block.open,
                found.block.open + 1,
                hint=f'Write {found.type} "NAME" {{ ... }}.',
            )
            return
        if len(labels) > 1:
            self._extra_label(found, labels[1], f"only 1 label ({table.label_name}) is expected")
        if key != "-":
            decoded[key] = labels[0].value

    def _extra_label(self, found: ScopedBlock, label: Label, why: str) -> None:
        self.diagnostics.report(
            f"Extraneous label for {found.type}: {why} for {found.type} blocks.",
            label.start,
            label.end,
        )

    # -- problems ---------------------------------------------------------------------------

    def _guard(self, run: Callable[[], None]) -> None:
        try:
            run()
        except HclError as error:
            self._add(error)

    def _add(self, error: HclError) -> None:
        if not isinstance(error, SilentError):
            self.diagnostics.add(error)
