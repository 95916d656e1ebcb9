"""NVIDIA's management library by its C interface: what this node asks of it, and no more.

The library comes with the driver, so a machine without one has none; nothing is installed for it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec
import structlog

from orchgit.errors import DriverError

T = TypeVar("T")

_log = structlog.get_logger(component="agent")

LIBRARY = "libnvidia-ml.so.1"
_TEXT_BYTES = 96
_CLOCK_SM, _CLOCK_MEMORY = 1, 2
_SENSOR_GPU = 0


class GpuFacts(msgspec.Struct, frozen=True, kw_only=True):
    """One card, or one part of a divided card. 0 is: the card does not tell."""

    id: str
    name: str
    minor: int
    """The number of its device file: /dev/nvidiaN."""
    memory_bytes: int
    bar1_bytes: int = 0
    power_limit_w: int = 0
    cores_clock_mhz: int = 0
    memory_clock_mhz: int = 0
    bus: str = ""
    mig: tuple[int, int] | None = None
    """Of a part of a divided card (MIG): the numbers of its GPU instance and compute instance."""


class GpuUse(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    memory_used_bytes: int
    gpu_percent: int = 0
    memory_percent: int = 0
    power_w: float = 0.0
    temperature_c: int = 0


class _Memory(ctypes.Structure):
    _fields_ = (
        ("total", ctypes.c_ulonglong),
        ("free", ctypes.c_ulonglong),
        ("used", ctypes.c_ulonglong),
    )


class _Bar1(_Memory):
    """The memory that is seen through the bus."""


class _Rates(ctypes.Structure):
    _fields_ = (("gpu", ctypes.c_uint), ("memory", ctypes.c_uint))


class _Pci(ctypes.Structure):
    _fields_ = (
        ("legacy", ctypes.c_char * 16),
        ("domain", ctypes.c_uint),
        ("bus", ctypes.c_uint),
        ("device", ctypes.c_uint),
        ("device_id", ctypes.c_uint),
        ("subsystem_id", ctypes.c_uint),
        ("id", ctypes.c_char * 32),
    )


class Nvml:
    """The library, opened and started; `close` ends it. DriverError where it cannot be used."""

    def __init__(self, path: str = LIBRARY) -> None:
        try:
            self._library = ctypes.CDLL(path)
        except OSError as error:
            raise DriverError(f"cannot open NVIDIA's library: {error}") from None
        self._call("nvmlInit_v2")

    def driver_version(self) -> str:
        return self._text("nvmlSystemGetDriverVersion")

    def cards(self) -> list[GpuFacts]:
        """What tasks can be given: the parts of divided cards, and the other cards whole. A card
        that fails is left out; the others stay."""
        return self._of_each(self._facts)

    def use(self) -> list[GpuUse]:
        return self._of_each(self._use)

    def close(self) -> None:
        self._try("nvmlShutdown")

    def _of_each(self, ask: Callable[[ctypes.c_void_p, ctypes.c_void_p], T]) -> list[T]:
        """Asks for each card, with its parts: (card, part), or (card, card) where it is whole."""
        found = []
        for index in range(self._number("nvmlDeviceGetCount_v2")):
            card = ctypes.c_void_p()
            try:
                self._call(
                    "nvmlDeviceGetHandleByIndex_v2", ctypes.c_uint(index), ctypes.byref(card)
                )
                found += [ask(card, unit) for unit in self._units(card)]
            except DriverError as error:
                _log.warning(
                    "leaving out a GPU that does not answer", index=index, error=str(error)
                )
        return found

    def _units(self, card: ctypes.c_void_p) -> list[ctypes.c_void_p]:
        divided, pending = ctypes.c_uint(), ctypes.c_uint()
        self._try("nvmlDeviceGetMigMode", card, ctypes.byref(divided), ctypes.byref(pending))
        if not divided.value:
            return [card]
        parts = []
        for index in range(self._optional("nvmlDeviceGetMaxMigDeviceCount", card)):
            part = ctypes.c_void_p()
            if self._try(
                "nvmlDeviceGetMigDeviceHandleByIndex",
                card,
                ctypes.c_uint(index),
                ctypes.byref(part),
            ):
                parts.append(part)
        return parts

    def _facts(self, card: ctypes.c_void_p, unit: ctypes.c_void_p) -> GpuFacts:
        pci = _Pci()
        self._call("nvmlDeviceGetPciInfo_v3", card, ctypes.byref(pci))
        bar1 = _Bar1()
        self._try("nvmlDeviceGetBAR1MemoryInfo", card, ctypes.byref(bar1))
        instances = ("nvmlDeviceGetGpuInstanceId", "nvmlDeviceGetComputeInstanceId")
        return GpuFacts(
            id=self._text("nvmlDeviceGetUUID", unit),
            name=self._text("nvmlDeviceGetName", unit),
            minor=self._number("nvmlDeviceGetMinorNumber", card),
            memory_bytes=self._memory(unit).total,
            bar1_bytes=bar1.total,
            power_limit_w=self._optional("nvmlDeviceGetPowerManagementLimit", card) // 1000,
            cores_clock_mhz=self._optional("nvmlDeviceGetMaxClockInfo", card, _CLOCK_SM),
            memory_clock_mhz=self._optional("nvmlDeviceGetMaxClockInfo", card, _CLOCK_MEMORY),
            bus=pci.id.decode(),
            mig=None
            if unit is card
            else (self._number(instances[0], unit), self._number(instances[1], unit)),
        )

    def _use(self, card: ctypes.c_void_p, unit: ctypes.c_void_p) -> GpuUse:
        """Parts have memory of their own; the card tells the rest."""
        rates = _Rates()
        if unit is card:
            self._try("nvmlDeviceGetUtilizationRates", card, ctypes.byref(rates))
        return GpuUse(
            id=self._text("nvmlDeviceGetUUID", unit),
            memory_used_bytes=self._memory(unit).used,
            gpu_percent=rates.gpu,
            memory_percent=rates.memory,
            power_w=self._optional("nvmlDeviceGetPowerUsage", card) / 1000,
            temperature_c=self._optional("nvmlDeviceGetTemperature", card, _SENSOR_GPU),
        )

    def _memory(self, card: ctypes.c_void_p) -> _Memory:
        memory = _Memory()
        self._call("nvmlDeviceGetMemoryInfo", card, ctypes.byref(memory))
        return memory

    def _text(self, function: str, *arguments: Any) -> str:
        text = ctypes.create_string_buffer(_TEXT_BYTES)
        self._call(function, *arguments, text, ctypes.c_uint(_TEXT_BYTES))
        return text.value.decode("utf-8", "replace")

    def _number(self, function: str, *arguments: Any) -> int:
        number = ctypes.c_uint()
        self._call(function, *arguments, ctypes.byref(number))
        return number.value

    def _optional(self, function: str, *arguments: Any) -> int:
        """0 where the card, or an older library, does not know."""
        number = ctypes.c_uint()
        self._try(function, *arguments, ctypes.byref(number))
        return number.value

    def _try(self, function: str, *arguments: Any) -> bool:
        try:
            self._call(function, *arguments)
        except DriverError:
            return False
        return True

    def _call(self, function: str, *arguments: Any) -> None:
        call: Callable[..., int] | None = getattr(self._library, function, None)
        if call is None:
            raise DriverError(f"cannot ask the GPUs: NVIDIA's library has no {function}")
        code = call(*arguments)
        if code:
            raise DriverError(f"cannot ask the GPUs: {function} answers error {code}")
