"""Target kinds: one table entry per kind, with its options, default keys, device type and facts.

Only this table and the file of a back end refer to a kind by name; all other code tests ``target.features``.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from tvm.registry import Registry

# DLPack device types, with the extensions of Apache TVM.
CPU, CUDA, OPENCL, AOCL, VULKAN, METAL, ROCM, EXT_DEV, HEXAGON, WEBGPU = 1, 2, 4, 32, 7, 8, 10, 12, 16, 15


class Option(NamedTuple):
    """A ``-name=value`` option. ``type`` is int, bool, str, list (of str) or "targets"."""

    type: object
    default: object = None


# The names of option types, as tvmc and other users of ``kind.options`` expect them.
_TYPE_NAMES = {int: "IntImm", bool: "IntImm", str: "runtime.String", list: "Array", "targets": "Array"}

_COMMON = {
    "keys": Option(list),
    "tag": Option(str),
    "device": Option(str),
    "model": Option(str),
    "libs": Option(list),
    "host": Option("target"),
    "from_device": Option(int),
    "target_device_type": Option(int),
}
COMMON_OPTIONS: Mapping[str, Option] = MappingProxyType(_COMMON)


class TargetKind:
    """A target kind. ``facts`` are properties of the kind that options may override.

    Parameters
    ----------
    name : str
        The name, such as "llvm".
    schema : Mapping[str, Option]
        The options of the kind.
    default_keys : tuple[str, ...], optional
        The keys by which schedules are selected.
    device_type : int, optional
        The device type.
    family : str, optional
        "cpu" or "gpu".
    aliases : Mapping[str, str], optional
        Alternative names of options.
    facts : Mapping[str, object], optional
        Properties that options may override.
    """

    __slots__ = ("aliases", "attrs", "default_device_type", "default_keys", "facts", "family", "name", "schema")

    def __init__(
        self,
        name: str,
        schema: Mapping[str, Option],
        default_keys: tuple[str, ...] = (),
        device_type: int = CPU,
        family: str = "cpu",
        aliases: Mapping[str, str] | None = None,
        facts: Mapping[str, object] | None = None,
    ):
        self.name = name
        self.schema: dict[str, Option] = {**schema, **COMMON_OPTIONS}
        self.default_keys = default_keys
        self.default_device_type = device_type
        self.family = family
        self.aliases = dict(aliases or {})
        self.facts = dict(facts or {})
        self.attrs: dict[str, object] = {}

    @property
    def options(self) -> dict[str, str]:
        """The options with the names of their types, as in Apache TVM."""
        return {name: _TYPE_NAMES[option.type] for name, option in self.schema.items() if name != "host"}

    @staticmethod
    def options_from_name(kind_name: str) -> dict[str, str]:
        """The options of a kind, with the names of their types.

        Parameters
        ----------
        kind_name : str
            The name of the kind, such as "llvm".

        Returns
        -------
        dict of str to str

        Raises
        ------
        KeyError
            The kind is unknown.
        """
        return KINDS[kind_name].options

    def add_attr_option(self, name: str, type: object, default: object = None) -> None:
        """Declare an additional option, for back ends with their own options.

        Parameters
        ----------
        name : str
            The name, without the leading dash.
        type : type
            int, bool, str, or list for a list of str.
        default : object, optional
            The default value.
        """
        self.schema[name] = Option(type, default)

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"TargetKind({self.name!r})"


KINDS: Registry[TargetKind] = Registry("target kind")


def register_kind(kind: TargetKind, override: bool = False) -> TargetKind:
    return KINDS.register(kind.name, kind, override)


def _options(text: str) -> dict[str, Option]:
    """Parse ``"mcpu:str thread_warp_size:int=32"`` to options; a compact notation for the table below."""
    types = {"int": int, "bool": bool, "str": str, "list": list, "targets": "targets"}
    result = {}
    for word in text.split():
        name, _, rest = word.partition(":")
        type_name, _, default = rest.partition("=")
        kind_type = types[type_name]
        if not default:
            result[name] = Option(kind_type)
        elif kind_type is bool:
            result[name] = Option(bool, default == "true")
        else:
            result[name] = Option(kind_type, kind_type(default))
    return result


# Options of releases before 0.14 that moved to Executor and Runtime; old tuning records contain them.
_MOVED = "system-lib:bool runtime:str link-params:bool executor:str interface-api:str unpacked-api:bool"

# Properties of every NVIDIA GPU. The option named by "nvidia_architecture" selects the architecture; "has_inline_ptx"
# means that code of the kind may contain inline PTX for instructions without a compiler intrinsic.
_NVIDIA = {"max_shared_memory_per_block": 49152, "has_half": True, "has_double": True}

register_kind(
    TargetKind(
        "llvm",
        _options(
            "mattr:list mcpu:str mtriple:str mfloat-abi:str mabi:str num-cores:int vector-width:int opt-level:int "
            "fast-math:bool fast-math-nnan:bool fast-math-ninf:bool fast-math-nsz:bool fast-math-arcp:bool "
            "fast-math-contract:bool fast-math-reassoc:bool cl-opt:list jit:str " + _MOVED
        ),
        ("cpu",),
        aliases={"target": "mtriple"},
        # Processor instructions without an operator can be called by LLVM's intrinsic names.
        facts={"has_llvm_intrinsics": True},
    )
)
register_kind(
    TargetKind(
        "c",
        _options(
            "mcpu:str march:str mattr:list mtriple:str num-cores:int vector-width:int constants-byte-alignment:int "
            "workspace-byte-alignment:int"
        ),
        ("cpu",),
        # Kernels can import and call functions in C source.
        facts={"has_c_functions": True},
    )
)
register_kind(
    TargetKind(
        "cuda",
        _options(
            "mcpu:str arch:str=sm_50 max_shared_memory_per_block:int max_threads_per_block:int thread_warp_size:int=32 "
            "registers_per_block:int l2_cache_size_bytes:int max_num_threads:int=1024"
        ),
        ("cuda", "gpu"),
        CUDA,
        "gpu",
        facts={**_NVIDIA, "nvidia_architecture": "arch", "has_inline_ptx": True},
    )
)
register_kind(
    TargetKind(
        "nvptx",
        _options("mcpu:str=sm_50 mtriple:str=nvptx64-nvidia-cuda max_num_threads:int=1024 thread_warp_size:int=32"),
        ("cuda", "gpu"),
        CUDA,
        "gpu",
        facts={**_NVIDIA, "nvidia_architecture": "mcpu"},
    )
)
register_kind(
    TargetKind(
        "rocm",
        _options(
            "mcpu:str=gfx900 mtriple:str=amdgcn-amd-amdhsa-hcc mattr:list max_num_threads:int=256 "
            "max_threads_per_block:int=256 max_shared_memory_per_block:int=65536 thread_warp_size:int=64"
        ),
        ("rocm", "gpu"),
        ROCM,
        "gpu",
        facts={"has_half": True, "has_double": True},
    )
)
register_kind(
    TargetKind(
        "opencl",
        _options(
            "max_threads_per_block:int=256 max_shared_memory_per_block:int=16384 max_num_threads:int=256 "
            "thread_warp_size:int=1 texture_spatial_limit:int=16384 texture_depth_limit:int max_function_args:int=128 "
            "image_base_address_alignment:int supports_float16:bool"
        ),
        ("opencl", "gpu"),
        OPENCL,
        "gpu",
        # The drivers' compilers unroll loops themselves.
        facts={"has_unrolling_compiler": True},
    )
)
register_kind(
    TargetKind(
        "metal",
        _options(
            "max_num_threads:int=256 max_threads_per_block:int=256 max_shared_memory_per_block:int=32768 "
            "thread_warp_size:int=16 max_function_args:int=31"
        ),
        ("metal", "gpu"),
        METAL,
        "gpu",
        facts={"has_half": True},
    )
)
register_kind(
    TargetKind(
        "vulkan",
        _options(
            "mattr:list supports_float16:bool supports_float32:bool=true supports_float64:bool supports_int8:bool "
            "supports_int16:bool supports_int32:bool=true supports_int64:bool supports_8bit_buffer:bool "
            "supports_16bit_buffer:bool supports_storage_buffer_storage_class:bool supports_push_descriptor:bool "
            "supports_dedicated_allocation:bool supports_integer_dot_product:bool supports_cooperative_matrix:bool "
            "supported_subgroup_operations:int max_num_threads:int=256 max_threads_per_block:int=256 "
            "thread_warp_size:int=1 max_block_size_x:int max_block_size_y:int max_block_size_z:int "
            "max_push_constants_size:int max_uniform_buffer_range:int max_storage_buffer_range:int "
            "max_per_stage_descriptor_storage_buffer:int max_shared_memory_per_block:int device_type:str "
            "device_name:str driver_name:str driver_version:int vulkan_api_version:int max_spirv_version:int"
        ),
        ("vulkan", "gpu"),
        VULKAN,
        "gpu",
        facts={"max_shared_memory_per_block": 16384},
    )
)
register_kind(
    TargetKind(
        "webgpu",
        _options("max_num_threads:int=256"),
        ("webgpu", "gpu"),
        WEBGPU,
        "gpu",
        facts={"max_shared_memory_per_block": 16384, "thread_warp_size": 1},
    )
)
register_kind(
    TargetKind(
        "hexagon",
        _options("mattr:list mcpu:str mtriple:str=hexagon llvm-options:list num-cores:int vtcm-capacity:int"),
        ("hexagon", "cpu"),
        HEXAGON,
    )
)
register_kind(TargetKind("sdaccel", {}, ("sdaccel", "hls"), OPENCL, "other"))
register_kind(TargetKind("aocl", {}, ("aocl", "hls"), AOCL, "other"))
register_kind(TargetKind("aocl_sw_emu", {}, ("aocl", "hls"), AOCL, "other"))
register_kind(TargetKind("stackvm", _options("system-lib:bool"), ("cpu",)))
register_kind(TargetKind("ext_dev", _options("system-lib:bool"), (), EXT_DEV, "other"))
register_kind(TargetKind("hybrid", _options("system-lib:bool"), (), CPU, "other"))
register_kind(TargetKind("composite", _options("devices:targets"), (), CPU, "other"))
register_kind(TargetKind("test", {}, (), CPU, "other", facts={"is_test": True}))
