"""Variables: list, read, write with check-and-set, lock."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec
from msgspec import field
from starlette.responses import Response

from orchgit.api.blocking import answer_list, blocking_read
from orchgit.api.call import ApiCall
from orchgit.api.caller import note_claimed_author
from orchgit.api.errors import VARY, text_response
from orchgit.api.pagination import PageRequest
from orchgit.api.routing import endpoint
from orchgit.api.shapes import nomad_json
from orchgit.durations import DurationError, parse_ns, to_text
from orchgit.errors import InvalidInputError, RefusedError
from orchgit.model.base import Model
from orchgit.model.variable import (
    StoredVariable,
    VariableConflictError,
    VariableLock,
    variable_key,
)
from orchgit.services.secrets.variables import (
    DEFAULT_LOCK_NS,
    NewVariable,
    WantedLock,
    check_path,
)
from orchgit.state.changes import target
from orchgit.state.snapshot import Snapshot
from orchgit.whole_number import whole_number

MAX_BODY_BYTES = 1 << 20
"""Above what the largest variable needs, however its characters are escaped."""
_TABLES = ("variables",)
_NO_INDEX = {"X-Nomad-Index": "0"}
_LOCK_OPERATIONS = ("lock-acquire", "lock-renew", "lock-release")


class LockBody(Model):
    id: str = ""
    ttl: str = field(default="", name="TTL")
    lock_delay: str = ""


class VariableBody(Model):
    """The body that clients send. The path is that of the request, whatever the body says, and so
    is the namespace where the query names one."""

    namespace: str = ""
    items: dict[str, str] | None = None
    lock: LockBody | None = None


class VariableStub(Model):
    """A variable without its items. `lock.id` is "" for callers who may not write it: knowing it
    is holding the lock."""

    namespace: str
    path: str
    create_index: int
    modify_index: int
    create_time_ns: int
    modify_time_ns: int
    lock: LockBody | msgspec.UnsetType = msgspec.UNSET


class ShownVariable(VariableStub, kw_only=True):
    items: dict[str, str]

    def __repr__(self) -> str:
        return f"ShownVariable({self.path!r})"


class _Listed(Model):
    """What filters look at: Nomad's lists embed the metadata."""

    variable_metadata: VariableStub


async def list_variables(call: ApiCall) -> Response:
    page, prefix = PageRequest.of(call), call.query.get("prefix", "")

    def read(snapshot: Snapshot) -> tuple[Any, dict[str, str]]:
        allows = call.rights.allows_variable
        found = sorted(
            (
                each
                for each in snapshot.variables.all(call.namespaces, prefix)
                if allows(each.namespace, each.path, "list")
            ),
            key=_token,
        )
        chosen, headers = page.apply(found, _token, lambda each: _Listed(_stub(each)))
        return [
            _stub(each, with_lock_id=allows(each.namespace, each.path, "write")) for each in chosen
        ], headers

    return await answer_list(call, _TABLES, read)


def _token(variable: StoredVariable) -> str:
    return f"{variable.namespace}.{variable.path}"


async def read_variable(call: ApiCall) -> Response:
    namespace, path = call.namespace, call.path["path"]

    def read(snapshot: Snapshot) -> tuple[StoredVariable | None, int]:
        found = snapshot.variables.get(namespace, path)
        return found, found.modify_index if found else snapshot.table_indexes.newest(*_TABLES)

    targets = [target("variables", variable_key(namespace, path))]
    variable, index = await blocking_read(call, targets, read, is_one_row=True)
    if variable is None:
        headers = {"X-Nomad-Index": str(index), **call.contact_headers()}
        return text_response("variable not found", 404, headers)
    is_writer = call.rights.allows_variable(namespace, path, "write")
    return call.answer(_shown(call, variable, with_lock_id=is_writer), index=index, read=True)


async def write_variable(call: ApiCall) -> Response:
    operation = _lock_operation(call)
    body = nomad_json.decode(await call.body(MAX_BODY_BYTES), VariableBody)
    path = call.path["path"]
    namespace = call.query.get("namespace") or body.namespace or call.namespace
    if not path:
        raise InvalidInputError("missing variable path")
    if (refusal := _refused_path(path)) is not None:
        return refusal
    note_claimed_author(call)
    if operation is None:
        return await _put(call, namespace, path, body)
    new = NewVariable(namespace, path, body.items or {})
    lock, variables = body.lock or LockBody(), call.services.variables
    if operation == "lock-acquire":
        wanted = WantedLock(lock.id, _duration_ns(lock.ttl), _duration_ns(lock.lock_delay))
        try:
            variable = await variables.acquire_lock(new, wanted)
        except VariableConflictError as conflict:
            return _conflict(call, conflict, namespace, {})
        except InvalidInputError as error:
            return _refusal(error)
        shown = _shown(call, variable, with_lock_id=True)
        return call.answer(shown, index=variable.modify_index)
    if operation == "lock-renew":
        return await _renewed(call, lambda: variables.renew_lock(namespace, path, lock.id))
    return await _released(call, lambda: variables.release_lock(namespace, path, lock.id))


async def _put(call: ApiCall, namespace: str, path: str, body: VariableBody) -> Response:
    if not body.items:
        raise InvalidInputError("variable missing required Items object")
    new = NewVariable(namespace, path, body.items)
    lock_id = body.lock.id if body.lock else ""
    expected = _expected_index(call)
    variables = call.services.variables
    try:
        variable = await variables.put(new, expected, lock_id)
    except VariableConflictError as conflict:
        return _conflict(call, conflict, namespace)
    except InvalidInputError as error:
        return _refusal(error)
    shown = _with_items(_stub(variable, with_lock_id=True), body.items)
    return call.answer(shown, index=variable.modify_index)


async def delete_variable(call: ApiCall) -> Response:
    expected = _expected_index(call)
    note_claimed_author(call)
    try:
        index = await call.services.variables.delete(call.namespace, call.path["path"], expected)
    except VariableConflictError as conflict:
        return _conflict(call, conflict, call.namespace)
    return call.empty(status=204, index=index)


# -- parameters --------------------------------------------------------------------------------


def _expected_index(call: ApiCall) -> int | None:
    text = call.query.get("cas")
    if text is None:
        return None
    index = whole_number(text)
    if index is None or index < 0:
        raise InvalidInputError(f"cannot parse cas: {text!r} is not a modify index")
    return index


def _lock_operation(call: ApiCall) -> str | None:
    asked = [name for name in _LOCK_OPERATIONS if name in call.query]
    if len(asked) > 1:
        raise InvalidInputError("multiple lock operations")
    if asked and "cas" in call.query:
        raise InvalidInputError("cannot check-and-set in a lock operation: leave cas out")
    return asked[0] if asked else None


def _refused_path(path: str) -> Response | None:
    """Returns the refusal of an unusable path, in the words that Nomad's clients know."""
    try:
        check_path(path)
    except InvalidInputError as error:
        return _refusal(error)
    return None


def _refusal(error: InvalidInputError) -> Response:
    return text_response(f"RPC Error:: 400,{error}", 400, _NO_INDEX)


def _duration_ns(text: str) -> int:
    if not text:
        return DEFAULT_LOCK_NS
    try:
        return parse_ns(text)
    except DurationError as error:
        raise InvalidInputError(f"cannot lock: {error}") from error


# -- answers -----------------------------------------------------------------------------------


async def _renewed(call: ApiCall, renew: Callable[[], Awaitable[StoredVariable]]) -> Response:
    try:
        variable = await renew()
    except (VariableConflictError, RefusedError):  # another holds the lock, or nobody does
        return text_response("attempting to modify locked variable", 409)
    except InvalidInputError as error:
        return _refusal(error)
    return call.answer(_stub(variable, with_lock_id=True))


async def _released(call: ApiCall, release: Callable[[], Awaitable[StoredVariable]]) -> Response:
    try:
        variable = await release()
    except VariableConflictError:
        return text_response("attempting to modify locked variable", 409)
    except InvalidInputError as error:
        return _refusal(error)
    except RefusedError as error:
        return text_response(str(error), 500, _NO_INDEX)
    return call.answer(_stub(variable, with_lock_id=True), index=variable.modify_index)


def _conflict(
    call: ApiCall,
    conflict: VariableConflictError,
    namespace: str,
    locked_headers: Mapping[str, str] = _NO_INDEX,
) -> Response:
    """Answers 409 with the current variable; an unknown or a locked one has no index.
    `locked_headers` are those of the refusal of a locked one."""
    current, path = conflict.current, call.path["path"]
    headers = _table_index(call)
    shown: VariableStub
    if current is None:
        shown = ShownVariable(namespace, path, 0, 0, 0, 0, items={})
    elif current.lock is not None:
        # Only its holder learns more of a locked variable.
        shown, headers = VariableStub(namespace, path, 0, 0, 0, 0), dict(locked_headers)
    else:
        shown = _shown(call, current, with_lock_id=False)
        if not call.rights.allows_variable(namespace, path, "read"):
            shown.items = {}
    # Nomad's clients read JSON here, though Nomad calls it text.
    data = nomad_json.encode(shown)
    return Response(data, status_code=409, headers={**VARY, **headers}, media_type="text/plain")


def _table_index(call: ApiCall) -> dict[str, str]:
    with call.context.snapshot() as snapshot:
        return {"X-Nomad-Index": str(snapshot.table_indexes.newest(*_TABLES))}


def _stub(variable: StoredVariable, with_lock_id: bool = False) -> VariableStub:
    return VariableStub(
        variable.namespace,
        variable.path,
        variable.create_index,
        variable.modify_index,
        variable.create_time_ns,
        variable.modify_time_ns,
        _lock(variable.lock, with_lock_id),
    )


def _shown(call: ApiCall, variable: StoredVariable, with_lock_id: bool) -> ShownVariable:
    items = call.services.variables.items(variable)
    return _with_items(_stub(variable, with_lock_id), items)


def _with_items(stub: VariableStub, items: dict[str, str]) -> ShownVariable:
    fields = {name: getattr(stub, name) for name in stub.__struct_fields__}
    return ShownVariable(**fields, items=items)


def _lock(lock: VariableLock | None, with_id: bool) -> LockBody | msgspec.UnsetType:
    if lock is None:
        return msgspec.UNSET
    shown_id = lock.id if with_id else ""
    return LockBody(shown_id, to_text(lock.ttl_ns), to_text(lock.lock_delay_ns))


ENDPOINTS = [
    endpoint("/v1/vars", get=list_variables),
    endpoint("/v1/var/{path:path}", get=read_variable, put=write_variable, delete=delete_variable),
]
