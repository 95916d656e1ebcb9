"""Functions that read files, through the access that the caller of the parser gave."""

from __future__ import annotations

import base64
import os
import posixpath
from collections.abc import Callable
from typing import TYPE_CHECKING

from jobspec.evaluation.values import SetOf, Value
from jobspec.functions.signature import CallContext, Function, FunctionError, text

if TYPE_CHECKING:
    from jobspec.files import FileAccess


def _guarded(run: Callable[..., Value]) -> Callable[..., Value]:
    def call(context: CallContext, *args: Value) -> Value:
        if context.files is None:
            raise FunctionError("filesystem function disabled")
        try:
            return run(context.files, *args)
        except OSError as error:
            raise FunctionError(error.strerror or str(error)) from None

    return call


def _read(files: FileAccess, path: str) -> bytes:
    try:
        return files.read(path)
    except FileNotFoundError:
        raise FunctionError(f"no file exists at {path}") from None
    except OSError as error:
        raise FunctionError(f"failed to read {path}: {error.strerror or error}") from None


def _file(files: FileAccess, path: str) -> str:
    try:
        return _read(files, path).decode()
    except UnicodeDecodeError:
        raise FunctionError(
            f"contents of {path} are not valid UTF-8; use the filebase64 function instead"
        ) from None


def _basename(files: FileAccess, path: str) -> str:
    stripped = path.rstrip("/")
    return posixpath.basename(stripped) if stripped else ("/" if path else ".")


def _pathexpand(files: FileAccess, path: str) -> str:
    return os.path.expanduser(path) if path == "~" or path.startswith("~/") else path


def _function(run: Callable[..., Value], *names: str) -> Function:
    return Function(_guarded(run), tuple(text(name) for name in names), in_context=True)


FUNCTIONS = {
    "abspath": _function(lambda files, path: files.absolute(path), "path"),
    "basename": _function(_basename, "path"),
    "dirname": _function(
        lambda files, path: posixpath.normpath(posixpath.dirname(path) or "."), "path"
    ),
    "file": _function(_file, "path"),
    "filebase64": _function(
        lambda files, path: base64.b64encode(_read(files, path)).decode(), "path"
    ),
    "fileexists": _function(lambda files, path: files.exists(path), "path"),
    "fileset": _function(
        lambda files, base, pattern: SetOf("string", files.glob(base, pattern)), "path", "pattern"
    ),
    "pathexpand": _function(_pathexpand, "path"),
}
