"""A disk of one sector: the machine says "@" on its serial line, where the BIOS speaks too, and
turns itself off when its power button is pressed."""

from __future__ import annotations

import struct

_ORIGIN = 0x7C00
_SECTOR = 512
_DISK_SECTORS = 2048
_SERIAL, _EVENT, _ENABLE, _CONTROL = 0x3F8, 0x600, 0x602, 0x604
_POWER_BUTTON, _SLEEP = 0x0100, 0x2000


def disk(handles_power_button: bool = True) -> bytes:
    """The disk's bytes, for a machine of type `pc`."""
    say = b"\xac\x84\xc0\x74\x03\xee\xeb\xf8"  # lodsb; test al, al; jz end; out dx, al; jmp lodsb
    listen = (
        _move_dx(_ENABLE)
        + _move_ax(_POWER_BUTTON)
        + b"\xef"  # out dx, ax
        + _move_dx(_EVENT)
        + b"\xed\xf6\xc4\x01\x74\xfa"  # in ax, dx; test ah, 1; jz in
        + _move_dx(_CONTROL)
        + _move_ax(_SLEEP)
        + b"\xef"
    )
    rest = (listen if handles_power_button else b"") + b"\xf4\xeb\xfd"  # hlt; jmp hlt
    begin = b"\x31\xc0\x8e\xd8\xfc"  # xor ax, ax; mov ds, ax; cld
    size = len(begin) + 3 + 3 + len(say) + len(rest)
    text = b"\xbe" + struct.pack("<H", _ORIGIN + size)  # mov si, text
    code = begin + text + _move_dx(_SERIAL) + say + rest + b"@\0"
    return (code.ljust(_SECTOR - 2, b"\0") + b"\x55\xaa").ljust(_SECTOR * _DISK_SECTORS, b"\0")


def _move_dx(value: int) -> bytes:
    return b"\xba" + struct.pack("<H", value)


def _move_ax(value: int) -> bytes:
    return b"\xb8" + struct.pack("<H", value)
