"""The stub driver seen from Python, and arrays that live in its imaginary devices."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any


class Stub:
    """What the core asked of the driver, and what it will be told."""

    def __init__(self, path: Path) -> None:
        self._library = ctypes.CDLL(str(path))
        self._library.stub_launches.restype = ctypes.c_size_t
        self._library.stub_stream.restype = ctypes.c_size_t
        self._library.stub_record_parameters.argtypes = [ctypes.c_size_t]
        self._library.stub_parameter.argtypes = [ctypes.c_size_t, ctypes.c_char_p]

    def reset(self) -> None:
        self._library.stub_reset()

    def fail_next(self, call: str, result: int) -> None:
        self._library.stub_fail_next(call.encode(), result)

    def count(self, call: str) -> int:
        return int(self._library.stub_count(call.encode()))

    def record_parameters(self, count: int) -> None:
        self._library.stub_record_parameters(count)

    def set_capturing(self, capturing: bool) -> None:
        self._library.stub_set_capturing(int(capturing))

    def set_static_shared(self, size: int) -> None:
        self._library.stub_set_static_shared(size)

    @property
    def opted_in(self) -> int:
        return int(self._library.stub_opted_in())

    @property
    def launches(self) -> int:
        return int(self._library.stub_launches())

    @property
    def dims(self) -> tuple[int, ...]:
        six = (ctypes.c_uint * 6)()
        self._library.stub_dims(six)
        return tuple(six)

    @property
    def shared_bytes(self) -> int:
        return int(self._library.stub_shared_bytes())

    @property
    def stream(self) -> int:
        return int(self._library.stub_stream())

    @property
    def device(self) -> int:
        """Whose context was current at the latest launch."""
        return int(self._library.stub_device())

    @property
    def current_device(self) -> int:
        """Whose context is current now; -1 for none."""
        return int(self._library.stub_current_device())

    def parameter(self, index: int, size: int) -> bytes:
        """The first bytes of a parameter of the latest launch."""
        sixteen = ctypes.create_string_buffer(16)
        self._library.stub_parameter(index, sixteen)
        return sixteen.raw[:size]


class DeviceArray:
    """An array by its interface alone; no memory is behind it."""

    def __init__(
        self,
        typestr: str = "<f4",
        shape: tuple[int, ...] = (8,),
        *,
        address: int = 0x100000,
        device: int = 0,
        read_only: bool = False,
        stream: int | None = None,
    ) -> None:
        self.address = address | device << 40 if address else 0
        self.__cuda_array_interface__: dict[str, Any] = {
            "shape": shape,
            "typestr": typestr,
            "data": (self.address, read_only),
            "version": 3,
            "stream": stream,
        }
