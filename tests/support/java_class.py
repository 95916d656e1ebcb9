"""A Java class file made by hand, so that tests need no compiler."""

from __future__ import annotations

import io
import struct
import zipfile

NAME = "Hello"


def class_file() -> bytes:
    """`Hello`: main prints "hello from java ", its first argument and the property `greeting`."""
    pool = _Pool()
    code = b"".join(
        (
            *_print(pool, pool.text("hello from java")),
            # args[0]
            *(b"\xb2", pool.field("java/lang/System", "out", "Ljava/io/PrintStream;")),
            *(b"\x2a\x03\x32", *_println(pool)),
            # System.getProperty("greeting")
            *(b"\xb2", pool.field("java/lang/System", "out", "Ljava/io/PrintStream;")),
            *(b"\x13", pool.text("greeting")),
            b"\xb8",
            pool.method(
                "java/lang/System", "getProperty", "(Ljava/lang/String;)Ljava/lang/String;"
            ),
            *_println(pool),
            b"\xb1",
        )
    )
    this, above = pool.class_of(NAME), pool.class_of("java/lang/Object")
    main, kind, attribute = (
        pool.utf8("main"),
        pool.utf8("([Ljava/lang/String;)V"),
        pool.utf8("Code"),
    )
    body = struct.pack(">HHI", 3, 1, len(code)) + code + struct.pack(">HH", 0, 0)
    method = struct.pack(">H", 0x0009) + main + kind + struct.pack(">H", 1)
    method += attribute + struct.pack(">I", len(body)) + body
    return (
        struct.pack(">IHH", 0xCAFEBABE, 0, 49)
        + pool.encoded()
        + struct.pack(">H", 0x0021)
        + this
        + above
        + struct.pack(">HHH", 0, 0, 1)
        + method
        + struct.pack(">H", 0)
    )


def jar() -> bytes:
    """The class in a jar file that names it as the main one."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        archive.writestr("META-INF/MANIFEST.MF", f"Manifest-Version: 1.0\nMain-Class: {NAME}\n")
        archive.writestr(f"{NAME}.class", class_file())
    return data.getvalue()


class _Pool:
    """The constants of a class file; each method returns the two bytes of an index."""

    def __init__(self) -> None:
        self._entries: dict[bytes, int] = {}

    def utf8(self, text: str) -> bytes:
        return self._add(b"\x01" + struct.pack(">H", len(text)) + text.encode())

    def text(self, text: str) -> bytes:
        return self._add(b"\x08" + self.utf8(text))

    def class_of(self, name: str) -> bytes:
        return self._add(b"\x07" + self.utf8(name))

    def field(self, owner: str, name: str, kind: str) -> bytes:
        return self._member(b"\x09", owner, name, kind)

    def method(self, owner: str, name: str, kind: str) -> bytes:
        return self._member(b"\x0a", owner, name, kind)

    def encoded(self) -> bytes:
        return struct.pack(">H", len(self._entries) + 1) + b"".join(self._entries)

    def _member(self, tag: bytes, owner: str, name: str, kind: str) -> bytes:
        named = self._add(b"\x0c" + self.utf8(name) + self.utf8(kind))
        return self._add(tag + self.class_of(owner) + named)

    def _add(self, entry: bytes) -> bytes:
        return struct.pack(">H", self._entries.setdefault(entry, len(self._entries) + 1))


def _println(pool: _Pool) -> tuple[bytes, bytes]:
    return b"\xb6", pool.method("java/io/PrintStream", "println", "(Ljava/lang/String;)V")


def _print(pool: _Pool, constant: bytes) -> tuple[bytes, ...]:
    stream = pool.field("java/lang/System", "out", "Ljava/io/PrintStream;")
    return (b"\xb2", stream, b"\x13", constant, *_println(pool))
