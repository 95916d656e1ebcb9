"""The process that answers one question in SQL, from a copy of what the question names.

The question is prepared twice: first against empty tables, which tells the columns that it names;
their values are copied from one snapshot of the state by constant SQL; then it runs in a database
in memory that holds nothing else. SQLite's authorizer refuses all but reading in both.
"""

from __future__ import annotations

import sqlite3
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import msgspec

from orchgit.errors import InvalidInputError
from orchgit.sql.messages import SqlAnswer, SqlQuestion, SqlRefusal
from orchgit.sql.views import BY_NAME, VIEWS, View
from orchgit.state.connection import open_reader

_STEPS_BETWEEN_LOOKS = 20_000
_MAX_VALUE_BYTES = 4 * 1024 * 1024
_MAX_COLUMNS = 200
_MAX_DEPTH = 100
_BATCH = 1_000
_ALLOWED = frozenset(
    (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_RECURSIVE, sqlite3.SQLITE_FUNCTION)
)
_REFUSED_FUNCTIONS = frozenset(("load_extension", "fts3_tokenizer", "zeroblob", "randomblob"))


def answer(question: SqlQuestion) -> SqlAnswer:
    """Answers one question.

    Raises InvalidInputError for what is no question, and for one that takes too long or whose
    answer is too large.
    """
    deadline_s = time.monotonic() + question.time_s
    copy = sqlite3.connect(":memory:", isolation_level=None)
    reader = _Reader(copy, deadline_s, question.time_s)
    for view in VIEWS:
        columns = ", ".join(f'"{column.name}" {column.type}' for column in view.columns)
        copy.execute(f"CREATE TABLE {view.name} ({columns})")
    wanted = reader.named_columns(question.query)
    index = _fill(copy, wanted, question, deadline_s)
    return reader.run(question, index)


class _Reader:
    """Prepares and runs the question, with SQLite's limits."""

    def __init__(self, copy: sqlite3.Connection, deadline_s: float, time_s: float) -> None:
        self._copy = copy
        self._deadline_s = deadline_s
        self._time_s = time_s
        self._named: defaultdict[str, set[str]] = defaultdict(set)
        self._refused = ""

    def named_columns(self, query: str) -> dict[str, set[str]]:
        """Returns the columns that the question names, by table."""
        self._copy.setlimit(sqlite3.SQLITE_LIMIT_SQL_LENGTH, 100_000)
        self._copy.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MAX_VALUE_BYTES)
        self._copy.setlimit(sqlite3.SQLITE_LIMIT_COLUMN, _MAX_COLUMNS)
        self._copy.setlimit(sqlite3.SQLITE_LIMIT_EXPR_DEPTH, _MAX_DEPTH)
        self._copy.setlimit(sqlite3.SQLITE_LIMIT_COMPOUND_SELECT, 50)
        self._copy.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
        # The first use of a table-valued function makes it, which the authorizer would refuse.
        self._copy.execute("SELECT 1 FROM json_each('[]'), json_tree('[]')").close()
        self._copy.set_authorizer(self._authorize)
        self._execute(f"EXPLAIN {query}").close()
        self._copy.set_authorizer(None)
        return dict(self._named)

    def run(self, question: SqlQuestion, index: int) -> SqlAnswer:
        self._copy.set_authorizer(self._authorize)
        self._copy.set_progress_handler(self._is_late, _STEPS_BETWEEN_LOOKS)
        found = self._execute(question.query)
        columns = [str(each[0]) for each in found.description or ()]
        rows: list[list[Any]] = []
        size = 0
        while (row := self._next(found)) is not None:
            if len(rows) == question.max_rows:
                return SqlAnswer(columns, rows, True, index)
            shown = [value.hex() if isinstance(value, bytes) else value for value in row]
            size += sum(len(value) if isinstance(value, str) else 8 for value in shown)
            if size > question.max_bytes:
                raise InvalidInputError(
                    f"cannot answer: the answer has more than {question.max_bytes} bytes; name "
                    "fewer columns, or add a LIMIT"
                )
            rows.append(shown)
        return SqlAnswer(columns, rows, False, index)

    def _execute(self, query: str) -> sqlite3.Cursor:
        try:
            return self._copy.execute(query)
        except sqlite3.Error as error:
            raise self._explained(error) from None

    def _next(self, found: sqlite3.Cursor) -> Sequence[Any] | None:
        try:
            row: Sequence[Any] | None = found.fetchone()
        except sqlite3.Error as error:
            raise self._explained(error) from None
        return row

    def _explained(self, error: sqlite3.Error) -> InvalidInputError:
        text = str(error)
        if time.monotonic() > self._deadline_s:
            return too_late(self._time_s)
        if self._refused:
            return InvalidInputError(f"cannot run this: {self._refused}")
        if text.startswith("no such table"):
            text += f"; the tables are {', '.join(sorted(BY_NAME))} (`orchgit sql -schema`)"
        elif text.startswith("no such column"):
            text += "; `orchgit sql -schema` lists the columns"
        elif "one statement" in text:
            text = "a question is one statement"
        return InvalidInputError(f"cannot run this: {text}")

    def _authorize(
        self, action: int, first: str | None, second: str | None, _db: str | None, _by: str | None
    ) -> int:
        if action not in _ALLOWED:
            self._refused = "only SELECT (and WITH ... SELECT) is allowed"
            return sqlite3.SQLITE_DENY
        if action == sqlite3.SQLITE_FUNCTION and second in _REFUSED_FUNCTIONS:
            self._refused = f"function {second}() is not allowed"
            return sqlite3.SQLITE_DENY
        if action == sqlite3.SQLITE_READ and first in BY_NAME:
            self._named[first].add(second or "")
        elif action == sqlite3.SQLITE_READ and (first or "").startswith("sqlite_"):
            self._refused = "SQLite's own tables cannot be read; `orchgit sql -schema` lists tables"
            return sqlite3.SQLITE_DENY
        return sqlite3.SQLITE_OK

    def _is_late(self) -> int:
        return int(time.monotonic() > self._deadline_s)


def too_late(time_s: float) -> InvalidInputError:
    return InvalidInputError(
        f"cannot answer within {time_s:g} s; name fewer rows, or add a WHERE or a LIMIT"
    )


# -- copying ---------------------------------------------------------------------------------------


def _fill(
    copy: sqlite3.Connection,
    wanted: dict[str, set[str]],
    question: SqlQuestion,
    deadline_s: float,
) -> int:
    """Copies the named columns from one snapshot of the state; returns its index."""
    state = open_reader(Path(question.database))
    state.execute("PRAGMA temp_store = FILE")
    state.create_function("in_body", 2, _in_body, deterministic=True)
    state.create_function("each_of", 2, _each_of, deterministic=True)
    state.create_function("without_login", 1, _without_login, deterministic=True)
    state.set_progress_handler(lambda: int(time.monotonic() > deadline_s), _STEPS_BETWEEN_LOOKS)
    state.execute("BEGIN")
    (index,) = state.execute(
        """SELECT coalesce(max(CASE key WHEN 'applied_index' THEN value END), 0)
            + coalesce(max(CASE key WHEN 'index_offset' THEN value END), 0) FROM meta"""
    ).fetchone()
    try:
        for name, columns in wanted.items():
            if name in question.without:
                continue
            view = BY_NAME[name]
            names = sorted(columns - {"", "ROWID"}) or [view.columns[0].name]
            marks = ", ".join("?" * len(names))
            quoted = ", ".join(f'"{each}"' for each in names)
            copy.execute("BEGIN")
            copy.executemany(
                f"INSERT INTO {name} ({quoted}) VALUES ({marks})",  # noqa: S608 (constant names)
                _rows(state, view, names, question.namespaces),
            )
            copy.execute("COMMIT")
    except sqlite3.OperationalError:
        if time.monotonic() > deadline_s:
            raise too_late(question.time_s) from None
        raise
    state.close()
    return int(index)


def _rows(
    state: sqlite3.Connection, view: View, names: Sequence[str], namespaces: list[str] | None
) -> Iterator[Sequence[Any]]:
    if view.name == "services":
        _make_services(state)
    values = ", ".join(view.column(name).value for name in names)
    select = f"SELECT {values} FROM {view.origin}"  # noqa: S608 (constant names)
    given: tuple[str, ...] = ()
    if namespaces is not None and view.namespace:
        select = f"{select} WHERE {view.namespace} IN (SELECT value FROM json_each(?))"  # noqa: S608
        given = (msgspec.json.encode(namespaces).decode(),)
    found = state.execute(select, given)
    while rows := found.fetchmany(_BATCH):
        yield from rows


def _make_services(state: sqlite3.Connection) -> None:
    """Makes the table of services, which are derived from allocations and not stored."""
    from orchgit.state.service_catalog import all_services
    from orchgit.state.snapshot import StateReads

    state.execute("PRAGMA query_only = OFF")  # the temporary database only: the file is read-only
    state.execute(
        """CREATE TEMP TABLE services
            (id, namespace, name, job_id, alloc_id, node_id, datacenter, address, port, tags)"""
    )
    fields = (
        *("ID", "Namespace", "ServiceName", "JobID", "AllocID"),
        *("NodeID", "Datacenter", "Address", "Port"),
    )
    state.executemany(
        "INSERT INTO temp.services VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            (*(each[name] for name in fields), msgspec.json.encode(each["Tags"]).decode())
            for each in all_services(StateReads(state), None)
        ),
    )
    state.execute("PRAGMA query_only = ON")


# -- functions of the views ------------------------------------------------------------------------


@lru_cache(maxsize=4)
def _decoded(body: bytes) -> Any:
    return msgspec.msgpack.decode(body)


def _in_body(body: bytes | None, path: str) -> int | float | str | None:
    """Returns a value of a stored struct: a number or text as it is, the rest as JSON."""
    value = _decoded(body) if body is not None else None
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    if value is None or isinstance(value, int | float | str):
        return value
    return msgspec.json.encode(value).decode()


def _each_of(objects: str | None, field: str) -> str:
    """Returns the field's values in a JSON list of objects, as a JSON list."""
    found = msgspec.json.decode(objects) if objects else []
    return msgspec.json.encode([each.get(field, "") for each in found or ()]).decode()


def _without_login(url: str | None) -> str:
    """Returns the URL without a user's name and password."""
    try:
        parts = urlsplit(url or "")
    except ValueError:
        return ""
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


def main() -> None:
    """Reads one question from stdin and writes its answer to stdout."""
    question = msgspec.json.decode(sys.stdin.buffer.read(), type=SqlQuestion)
    result: SqlAnswer | SqlRefusal
    try:
        result = answer(question)
    except InvalidInputError as error:
        result = SqlRefusal(str(error))
    except (MemoryError, sqlite3.OperationalError) as error:
        if isinstance(error, sqlite3.OperationalError) and "memory" not in str(error):
            raise
        result = SqlRefusal(
            "cannot answer: it needs more memory than a question may use; name fewer rows or "
            "columns"
        )
    sys.stdout.buffer.write(msgspec.json.encode(result))


if __name__ == "__main__":
    main()
