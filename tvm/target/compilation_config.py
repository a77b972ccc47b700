"""``CompilationConfig``: the targets of a build, with their host and default devices."""

from __future__ import annotations

from dataclasses import dataclass

from tvm.error import TargetError
from tvm.target.kinds import CPU
from tvm.target.record import Target
from tvm.target.virtual_device import VirtualDevice


@dataclass(frozen=True)
class CompilationConfig:
    """The targets of a build; ``optional_homogeneous_target`` is set if there is only one target besides the host.

    Parameters
    ----------
    primitive_targets : tuple[Target, ...]
        The targets of kernels.
    host_target : Target
        The target of the code that calls the kernels.
    host_virtual_device : VirtualDevice
        The device of the host code.
    default_primitive_virtual_device : VirtualDevice
        The device of kernels without an explicit device.
    optional_homogeneous_target : Target
        The only target of kernels, if there is exactly one.
    """

    primitive_targets: tuple[Target, ...]
    host_target: Target
    host_virtual_device: VirtualDevice
    default_primitive_virtual_device: VirtualDevice
    optional_homogeneous_target: Target | None

    def find_primitive_target_for_device_type(self, device_type: int) -> Target:
        """The first kernel target that runs on a device type.

        Parameters
        ----------
        device_type : int
            The device type as a DLPack number: 1 for CPUs, 2 for CUDA.

        Returns
        -------
        Target

        Raises
        ------
        TargetError
            No target of this build runs on the device type.
        """
        for target in self.primitive_targets:
            if target.get_target_device_type() == device_type:
                return target
        known = ", ".join(str(target) for target in self.primitive_targets)
        raise TargetError(f"no target of this build runs on devices of type {device_type}; the targets are: {known}")

    def canonical_virtual_device(self, virtual_device: VirtualDevice) -> VirtualDevice:
        """``virtual_device`` completed with a target of this build.

        Parameters
        ----------
        virtual_device : VirtualDevice
            A virtual device, which may specify only a device type.

        Returns
        -------
        VirtualDevice
            The completed device; unchanged if it already has a target or does not specify a device.

        Raises
        ------
        TargetError
            No target of this build runs on the device type.
        """
        if virtual_device.target is not None or virtual_device.device_type_int < 0:
            return virtual_device
        target = self.find_primitive_target_for_device_type(virtual_device.device_type_int)
        return _device_of(target, virtual_device.virtual_device_id, virtual_device.memory_scope)


def _device_of(target: Target, index: int = 0, scope: str = "") -> VirtualDevice:
    device = VirtualDevice(None, target, scope)
    device.virtual_device_id = max(index, 0)
    return device


def make_compilation_config(ctxt, target, target_host=None) -> CompilationConfig:
    """The targets of a build from the user's arguments; ``ctxt`` is the PassContext.

    Parameters
    ----------
    ctxt : PassContext
        The context.
    target : Target, str, list or dict
        The targets of kernels.
    target_host : Target or str, optional
        The target of the host code.

    Returns
    -------
    CompilationConfig

    Raises
    ------
    TargetError
        There is no target, or no target for the default device.
    """
    targets = Target.canon_multi_target_and_host(target, target_host)
    if not targets:
        raise TargetError("a build needs at least one target")
    host = next((item.host for item in targets if item.host is not None), None)
    if host is None:
        host = next((item for item in targets if item.get_target_device_type() == CPU), None) or Target("llvm")
        host = Target({**host.export(), "host": None})
    targets = [item if item.host is not None else item.with_host(host) for item in targets]
    fallback = int(ctxt.config.get("relay.fallback_device_type", 0)) if ctxt is not None else 0
    default = targets[0]
    if len(targets) > 1:
        wanted = fallback or CPU
        default = next((item for item in targets if item.get_target_device_type() == wanted), None)
        if default is None:
            raise TargetError(f"none of the targets runs on the default device type {wanted}: {targets}")
    return CompilationConfig(
        primitive_targets=tuple(targets),
        host_target=host,
        host_virtual_device=_device_of(host),
        default_primitive_virtual_device=_device_of(default),
        optional_homogeneous_target=targets[0] if len(targets) == 1 else None,
    )
