"""``VirtualDevice``: device, target and memory scope of a value, as far as they are known."""

from __future__ import annotations

from collections.abc import Mapping

from tvm.error import TargetError
from tvm.target.record import Target

UNKNOWN = -1


class VirtualDevice:
    """A partially specified device; ``device`` is any object with ``device_type`` and ``device_id``.

    Parameters
    ----------
    device : Device, optional
        The device.
    target : str | Mapping | Target, optional
        The target of code for the device.
    memory_scope : str, optional
        The memory scope.
    """

    __slots__ = ("device_type_int", "memory_scope", "target", "virtual_device_id")

    def __init__(self, device=None, target: str | Mapping | Target | None = None, memory_scope: str = ""):
        target = Target.canon_target(target)
        device_type = UNKNOWN if device is None else int(device.device_type)
        device_id = UNKNOWN if device is None else int(device.device_id)
        if target is not None:
            wanted = target.get_target_device_type()
            if device_type not in (UNKNOWN, wanted):
                raise TargetError(
                    f"target '{target}' runs on devices of type {wanted}, but the device has type {device_type}"
                )
            device_type = wanted
        if device_type != UNKNOWN and device_id == UNKNOWN:
            device_id = 0
        self.device_type_int = device_type
        self.virtual_device_id = device_id
        self.target = target
        self.memory_scope = str(memory_scope)

    @property
    def device_type(self) -> int:
        return self.device_type_int

    @property
    def is_fully_unconstrained(self) -> bool:
        return self.device_type_int == UNKNOWN and self.target is None and not self.memory_scope

    @property
    def is_fully_constrained(self) -> bool:
        return self.device_type_int != UNKNOWN and self.target is not None and bool(self.memory_scope)

    def _parts(self) -> tuple:
        return self.device_type_int, self.virtual_device_id, self.target, self.memory_scope

    def __eq__(self, other: object) -> bool:
        return isinstance(other, VirtualDevice) and self._parts() == other._parts()

    def __hash__(self) -> int:
        return hash(self._parts())

    def __repr__(self) -> str:
        words = [] if self.device_type_int == UNKNOWN else [f"device_type={self.device_type_int}"]
        if self.virtual_device_id != UNKNOWN:
            words.append(f"virtual_device_id={self.virtual_device_id}")
        if self.target is not None:
            words.append(f"target={self.target!r}")
        if self.memory_scope:
            words.append(f"memory_scope={self.memory_scope!r}")
        return f"VirtualDevice({', '.join(words) or '?'})"
