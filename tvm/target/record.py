"""``Target``: the immutable description of the machine to compile for: kind, keys, options and host."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from types import MappingProxyType

from tvm.error import TargetError
from tvm.target import arm, parse
from tvm.target.features import Features, features_of
from tvm.target.kinds import KINDS, TargetKind
from tvm.target.tag import TAGS

_STRUCTURAL = ("kind", "tag", "keys", "host")


class _Stack(threading.local):
    def __init__(self):
        self.targets: list[Target] = []


_STACK = _Stack()


class Target:
    """A compilation target, created from a text, a tag, a JSON text, a dict or another target.

    Two targets are equal if kind, keys, options and host are equal. ``with target:`` makes it the current target of the
    calling thread.

    Parameters
    ----------
    target : str | Mapping | Target
        The description of the target.
    host : str | Mapping | Target, optional
        The target of the code that calls the kernels.

    Raises
    ------
    ValueError
        A kind, an option or a value is unknown; the message suggests the most similar name.

    Examples
    --------
    >>> tvm.target.Target("llvm -mcpu=skylake-avx512").mcpu
    'skylake-avx512'
    """

    __slots__ = ("__weakref__", "_features", "_keys", "_text", "attrs", "host", "kind", "tag")

    kind: TargetKind
    attrs: Mapping[str, object]
    host: Target | None
    tag: str

    def __init__(self, target: str | Mapping | Target, host: str | Mapping | Target | None = None):
        if isinstance(target, Target):
            for slot in ("kind", "attrs", "host", "tag", "_keys", "_text", "_features"):
                object.__setattr__(self, slot, getattr(target, slot))
        else:
            self._build(_config(target))
        if host is not None:
            object.__setattr__(self, "host", _host(host))

    def _build(self, config: Mapping[str, object]) -> None:
        if "kind" not in config:
            raise TargetError(f"a target dict needs a 'kind', but contains {', '.join(map(str, config)) or 'nothing'}")
        if "features" in config:
            raise TargetError("'features' of a target are derived from its options and cannot be set")
        kind = parse.kind_named(str(config["kind"]), TAGS)
        attrs: dict[str, object] = {}
        for name, value in config.items():
            name = kind.aliases.get(name, name)
            if name not in _STRUCTURAL and value is not None:
                attrs[name] = parse.checked_value(kind, name, value)
        if "from_device" in attrs:
            attrs = {**_device_attrs(kind, attrs.pop("from_device")), **attrs}
        if "arch" in kind.schema and "arch" not in attrs:
            attrs.update(_local_arch())
        for name, option in kind.schema.items():
            if option.default is not None:
                attrs.setdefault(name, option.default)
        if "devices" in attrs:
            attrs["devices"] = tuple(item if isinstance(item, Target) else Target(item) for item in attrs["devices"])
        keys = _keys(kind, config, attrs)
        host = config.get("host")
        object.__setattr__(self, "kind", kind)
        object.__setattr__(self, "attrs", MappingProxyType(dict(sorted(attrs.items()))))
        object.__setattr__(self, "host", None if host is None else _host(host))
        object.__setattr__(self, "tag", str(config.get("tag") or ""))
        object.__setattr__(self, "_keys", keys)
        object.__setattr__(self, "_text", _text(kind, keys, self.attrs))
        object.__setattr__(self, "_features", None)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a Target is immutable (setting '{name}'); create a new one from target.export()")

    # ---- equality and copying ----

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        host = f", host={str(self.host)!r}" if self.host is not None else ""
        return f"Target({self._text!r}{host})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Target) and self._text == other._text and self.host == other.host

    def __hash__(self) -> int:
        return hash((self._text, self.host))

    # A target is immutable, so a copy is the target itself.
    def __copy__(self) -> Target:
        return self

    def __deepcopy__(self, memo: dict) -> Target:
        return self

    # ---- properties ----

    @property
    def keys(self) -> list[str]:
        return list(self._keys)

    @property
    def features(self) -> Features:
        """The capabilities of the machine; computed at first use, because it may query LLVM."""
        if self._features is None:
            object.__setattr__(self, "_features", features_of(self))
        return self._features

    @property
    def arch(self) -> str:
        return self.attrs.get("arch", "")

    @property
    def mcpu(self) -> str:
        return self.attrs.get("mcpu", "")

    @property
    def mattr(self) -> list[str]:
        return list(self.attrs.get("mattr", ()))

    @property
    def libs(self) -> list[str]:
        return list(self.attrs.get("libs", ()))

    @property
    def model(self) -> str:
        return self.attrs.get("model", "unknown")

    @property
    def device_name(self) -> str:
        return self.attrs.get("device", "")

    def _fact(self, name: str) -> object:
        value = self.attrs.get(name, self.kind.facts.get(name))
        if value is None:
            raise TargetError(f"target '{self}' does not specify {name}; add -{name}=... if its kind has that option")
        return value

    @property
    def max_num_threads(self) -> int:
        return self._fact("max_num_threads")

    @property
    def max_block_size_x(self) -> int:
        return self.attrs.get("max_block_size_x") or self.max_num_threads

    @property
    def max_block_size_y(self) -> int:
        return self.attrs.get("max_block_size_y") or self.max_num_threads

    @property
    def thread_warp_size(self) -> int:
        return self._fact("thread_warp_size")

    @property
    def max_shared_memory_per_block(self) -> int:
        return self._fact("max_shared_memory_per_block")

    @property
    def max_function_args(self) -> int:
        """The maximum number of kernel arguments; 0 if there is no limit."""
        return self.attrs.get("max_function_args", 0)

    @property
    def vtcm_capacity(self) -> int:
        return self.attrs.get("vtcm-capacity", 0)

    @property
    def l2_cache_size_bytes(self) -> int:
        return self.attrs.get("l2_cache_size_bytes", 0)

    @property
    def supports_integer_dot_product(self) -> bool:
        return self.features.has_integer_dot_product

    @property
    def supports_cooperative_matrix(self) -> bool:
        return bool(self.attrs.get("supports_cooperative_matrix", False))

    def get_kind_attr(self, attr_name: str) -> object:
        """An attribute of the kind (set by back ends), or None.

        Parameters
        ----------
        attr_name : str
            The attribute.

        Returns
        -------
        object
            Its value.
        """
        return self.kind.attrs.get(attr_name)

    def get_target_device_type(self) -> int:
        """The DLPack device type on which this target's code runs.

        Returns
        -------
        int
            The number.
        """
        return self.attrs.get("target_device_type", self.kind.default_device_type)

    def export(self) -> dict[str, object]:
        """The target as a dictionary; ``Target(target.export()) == target``.

        Returns
        -------
        dict
            The data.
        """
        result: dict[str, object] = {"kind": self.kind.name, "tag": self.tag, "keys": list(self._keys)}
        if self.host is not None:
            result["host"] = self.host.export()
        for name, value in self.attrs.items():
            if name == "devices":
                value = [device.export() for device in value]
            result[name] = list(value) if isinstance(value, tuple) else value
        return result

    def with_host(self, host: str | Mapping | Target | None = None) -> Target:
        """A copy with another host.

        Parameters
        ----------
        host : Target or str, optional
            The target of the host's code; None for none.

        Returns
        -------
        Target
            The copy.
        """
        return self if host is None else Target(self, host)

    # ---- current target ----

    def __enter__(self) -> Target:
        _STACK.targets.append(self)
        return self

    def __exit__(self, ptype, value, trace) -> None:
        if not _STACK.targets or _STACK.targets[-1] is not self:
            raise TargetError(f"cannot exit target '{self}', which is not the innermost target of this thread")
        _STACK.targets.pop()

    @staticmethod
    def current(allow_none: bool = True) -> Target | None:
        """The innermost target that was entered with ``with``.

        Parameters
        ----------
        allow_none : bool
            Whether to return None if there is no current target.

        Returns
        -------
        Target, optional
            The target, or None.

        Raises
        ------
        TargetError
            There is no current target, and ``allow_none`` is false.
        """
        if _STACK.targets:
            return _STACK.targets[-1]
        if allow_none:
            return None
        raise TargetError("there is no current target; wrap the call in 'with tvm.target.Target(...):'")

    @staticmethod
    def target_or_current(target: str | Mapping | Target | None) -> Target:
        """``target`` as a Target, or the current one when it is None.

        Parameters
        ----------
        target : Target or str, optional
            The target.

        Returns
        -------
        Target
            The target.

        Raises
        ------
        TargetError
            The argument is None, and there is no current target.
        """
        if target is None:
            target = Target.current()
        if target is None:
            raise TargetError("Target is not set; pass one or wrap the call in 'with tvm.target.Target(...):'")
        return Target.canon_target(target)

    # ---- lists and conversions ----

    @staticmethod
    def list_kinds() -> list[str]:
        """The names of all target kinds.

        Returns
        -------
        list of str
            Their names.
        """
        return KINDS.names()

    @staticmethod
    def from_device(device: object) -> Target:
        """The target of a device of this machine: a ``tvm.cuda(0)``-like object or its text (``"cuda"``).

        Parameters
        ----------
        device : Device or str
            The device.

        Returns
        -------
        Target
            The target.
        """
        from tvm.target.detect import config_of_device

        return Target(config_of_device(device))

    @staticmethod
    def canon_target(target: str | Mapping | Target | None) -> Target | None:
        """A target in any form as a ``Target``.

        Parameters
        ----------
        target : Target or str, optional
            The target.

        Returns
        -------
        Target, optional
            The target, or None if the argument is None.
        """
        return target if target is None or isinstance(target, Target) else Target(target)

    @staticmethod
    def canon_target_and_host(target, target_host=None) -> tuple[Target | None, Target | None]:
        """A target and its host in any form as ``Target`` objects.

        Parameters
        ----------
        target : Target or str, optional
            The target.
        target_host : Target or str, optional
            The host, if the target does not specify it.

        Returns
        -------
        tuple of Target
            The target, including the host, and the host.
        """
        target = Target.canon_target(target)
        if target is None:
            assert target_host is None, "Target host is not empty when target is empty."
            return None, None
        if target_host is not None:
            target = target.with_host(target_host)
        return target, target.host

    @staticmethod
    def canon_multi_target(multi_targets) -> list[Target] | None:
        """One target, a list of targets or a dict from device type to target, as a list.

        Parameters
        ----------
        multi_targets : Target, list or dict, optional
            The targets.

        Returns
        -------
        list of Target, optional
            The targets, or None if the argument is None.
        """
        if multi_targets is None:
            return None
        if isinstance(multi_targets, Mapping) and "kind" not in multi_targets:
            multi_targets = list(multi_targets.values())
        if isinstance(multi_targets, (str, Target, Mapping)):
            multi_targets = [multi_targets]
        return [Target.canon_target(target) for target in multi_targets]

    @staticmethod
    def canon_multi_target_and_host(target, target_host=None) -> list[Target]:
        """The targets of several devices with a common host.

        Parameters
        ----------
        target : Target, list or dict
            The targets.
        target_host : Target or str, optional
            The host.

        Returns
        -------
        list of Target
            The targets, each including the host.
        """
        targets = Target.canon_multi_target(target)
        assert targets is not None, "a target is needed"
        if target_host is None:
            return targets
        host = Target.canon_target(target_host)
        return [target.with_host(host) for target in targets]

    @staticmethod
    def canon_target_map_and_host(target_map: Mapping, target_host=None) -> tuple[dict[Target, object], Target | None]:
        """A dictionary whose keys are converted to Targets with a common host.

        Parameters
        ----------
        target_map : dict
            The values by target.
        target_host : Target or str, optional
            The host.

        Returns
        -------
        tuple
            The dictionary, and the host.
        """
        host = Target.canon_target(target_host)
        targets = [Target.canon_target(target) for target in target_map]
        if host is None:
            host = next((target.host for target in targets if target.host is not None), None)
        return {target.with_host(host): value for target, value in zip(targets, target_map.values())}, host


def _config(target: object) -> Mapping[str, object]:
    if isinstance(target, Mapping):
        return target
    if not isinstance(target, str):
        raise TargetError(
            f"target has to be a string or dictionary (or a Target), not {type(target).__name__}: {target!r}"
        )
    text = target.strip()
    if text in TAGS:
        return {**TAGS[text], "tag": text}
    if text.startswith("{"):
        return parse.json_to_config(text)
    return parse.text_to_config(text, TAGS)


def _host(host: object) -> Target:
    if isinstance(host, Target):
        return host
    if isinstance(host, (str, Mapping)):
        return Target(host)
    raise TargetError(
        f"target host has to be a string or dictionary (or a Target), not {type(host).__name__}: {host!r}"
    )


def _keys(kind: TargetKind, config: Mapping[str, object], attrs: Mapping[str, object]) -> tuple[str, ...]:
    """Return user keys first, then the device name, then the kind's own keys, without duplicates."""
    given = config.get("keys")
    keys = [] if given is None else list(parse.checked_value(kind, "keys", given))
    if attrs.get("device"):
        keys.append(attrs["device"])
    if arm.is_arm(kind, attrs):
        keys += ["arm_cpu", "cpu"]
    if given is None:
        keys += kind.default_keys
    return tuple(dict.fromkeys(keys))


def _text(kind: TargetKind, keys: tuple[str, ...], attrs: Mapping[str, object]) -> str:
    # Tuning logs store this text: the space before the options is written even if there are none.
    keys_text = f" -keys={','.join(keys)}" if keys else ""
    return f"{kind.name}{keys_text} " + " ".join(f"-{name}={parse.value_to_text(v)}" for name, v in attrs.items())


def _device_attrs(kind: TargetKind, index: int) -> dict[str, object]:
    from tvm.target.detect import attrs_of_device, open_device

    return attrs_of_device(kind, open_device(kind.default_device_type, index))


def _local_arch() -> dict[str, object]:
    """Return the architecture of the local GPU, if there is one."""
    from tvm.target.detect import local_arch

    arch = local_arch()
    return {"arch": arch} if arch else {}
