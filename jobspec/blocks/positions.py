"""Finds the place in the file of each part of the decoded job."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jobspec.blocks.decode import Origins
from jobspec.errors import SourceText


class Positions:
    """Answers where a path of the API's tree, such as ("TaskGroups", 0, "Count"), was written."""

    def __init__(self, source: SourceText, spec: dict[str, Any], origins: Origins) -> None:
        self._source = source
        self._spec = spec
        self._origins = origins

    @property
    def filename(self) -> str:
        return self._source.name

    def locate(self, path: Sequence[str | int]) -> tuple[int, int]:
        """Returns line and column of the nearest written part on the path, or else of the job."""
        offset, current = self._start_of(self._spec, 0), self._spec
        for key in path:
            offset = self._attribute_start(current, key, offset)
            try:
                current = current[key]  # type: ignore[index]
            except (KeyError, IndexError, TypeError):
                break
            offset = self._start_of(current, offset)
        return self._source.position(offset)

    def line_text(self, path: Sequence[str | int], message: str) -> str:
        """Returns `file:line:column: message` for a problem with the path."""
        line, column = self.locate(path)
        return f"{self._source.name}:{line}:{column}: {message}"

    def _start_of(self, part: Any, default: int) -> int:
        origin = self._origins.find(part)
        return default if origin is None else origin[0].block.start

    def _attribute_start(self, part: Any, key: str | int, default: int) -> int:
        origin = self._origins.find(part)
        if origin is None or not isinstance(key, str):
            return default
        found, table = origin
        name = table.names.get(key, key)
        attribute = found.body.attributes.get(name)
        if attribute is not None:
            return attribute.start
        block = next((block for block in found.body.blocks if block.type == name), None)
        return default if block is None else block.start
