"""Executables and virtual machines. Works without the compiler."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from ..error import TVMError
from . import image_files, vm_code
from .benchmark import BenchmarkResult
from .container import ADT
from .devices import RPC_SESS_MASK, Device
from .module import PYTHON_FUNCTIONS, Module, Unloaded
from .ndarray import NDArray, array
from .params import load_param_dict_from_file, pack_params, save_param_dict_to_file
from .registry import get_global_func, register_func
from .vm_values import Closure, VMClosure, give

register_func("tvm.contrib.image.decode", image_files.decode, override=True)
register_func("tvm.contrib.image.decoded_shape", image_files.decoded_shape, override=True)

_TYPE_KEY = "VMExecutable"


class Executable:
    """A compiled program of the virtual machine: instructions, constants, and the library of its kernels.

    Parameters
    ----------
    mod : Module
        The executable as a runtime module, as returned by loading an exported library.

    Raises
    ------
    TypeError
        The module is not an executable.
    """

    def __init__(self, mod: Module):
        if not isinstance(mod, Module) or mod.type_key != _TYPE_KEY:
            raise TypeError(f"expected an executable of the virtual machine, got {mod!r}")
        self.mod = mod
        self._code: vm_code.Code | None = None

    @property
    def module(self) -> Module:
        """The executable as a module of the runtime."""
        return self.mod

    @property
    def lib(self) -> Module | None:
        """The library of its kernels."""
        return next(iter(self.mod.imported_modules), None)

    @property
    def code(self) -> vm_code.Code:
        """The functions, instructions and names as Python objects."""
        if self._code is None:
            self._code = vm_code.from_words(self.mod["get_words"]())
        return self._code

    # ---- files ----

    def save(self) -> tuple[bytearray, Module | None]:
        """The executable as bytes, and the library of its kernels, which must be saved separately.

        Returns
        -------
        tuple of bytearray and Module
            The arguments of ``load_exec``.
        """
        return bytearray().join(self._packed_at(None)), self.lib

    def _packed_at(self, start: int | None) -> list[bytes | memoryview]:
        """Return the serialized form in parts; the constants are aligned if it starts at offset ``start`` of aligned
        memory."""
        words = self.mod["get_words"]()
        arrays = {s.name: a for s, a in zip(self.code.constants, self._arrays()) if a is not None}
        before = vm_code.header_size() + len(words)
        blob = pack_params(arrays, None if start is None else start + before) if arrays else ()
        return vm_code.sealed_parts(words, *blob, in_library=start is not None)

    @staticmethod
    def load_exec(bytecode: bytes | bytearray, lib: Module | None) -> Executable:
        """Create an executable from the output of ``save``.

        Parameters
        ----------
        bytecode : bytes or bytearray
            The code.
        lib : Module
            The library of its kernels.

        Returns
        -------
        Executable

        Raises
        ------
        TVMError
            The code is damaged, or has another version.
        TypeError
            ``bytecode`` is not bytes, or ``lib`` is not a module.
        """
        if not isinstance(bytecode, (bytes, bytearray)):
            raise TypeError(f"load_exec: expected the code as bytes, got {type(bytecode).__name__}")
        if lib is not None and not isinstance(lib, Module):
            raise TypeError(f"load_exec: expected the library as a Module, got {type(lib).__name__}")
        library = None if lib is None else Unloaded(lib)
        mod = get_global_func("runtime.vm.load_executable")(bytearray(bytecode), library)
        # Keep the information that the compiler attached to the library's object; it is needed for exports.
        mod._keeper.append(lib)
        return Executable(mod)

    def export_library(self, file_name: str | os.PathLike, **kwargs) -> Any:
        """Write the library with the executable inside; loading the file returns the executable's module.

        Parameters
        ----------
        file_name : str
            The file.
        kwargs : optional
            Further arguments of ``Module.export_library``.
        """
        return self.mod.export_library(file_name, **kwargs)

    def _root(self) -> tuple[str, Any]:
        """Return the root module of an exported file, which is loaded instead of the library."""
        return _TYPE_KEY, self._packed_at

    # ---- constants ----

    def _arrays(self) -> list[NDArray | None]:
        return [self.mod["get_constant"](i) for i in range(len(self.code.constants))]

    def get_late_bound_consts(self, byte_limit: int) -> dict[str, NDArray]:
        """Remove the constants of more than ``byte_limit`` bytes from the executable and return them by name.

        They are not saved with the executable and must be loaded before it runs.

        Parameters
        ----------
        byte_limit : int
            The maximum size in bytes of a constant that stays in the executable.

        Returns
        -------
        dict of str to NDArray
            The removed constants.
        """
        found = {}
        for number, (slot, value) in enumerate(zip(self.code.constants, self._arrays())):
            if value is not None and value.numpy().nbytes > byte_limit:
                found[slot.name] = value
                self.mod["set_constant"](number, None)
        return found

    def move_late_bound_consts(self, path: str | os.PathLike, byte_limit: int) -> None:
        """Move the constants of more than ``byte_limit`` bytes from the executable to a file.

        Parameters
        ----------
        path : str
            The file.
        byte_limit : int
            The maximum size in bytes of a constant that stays in the executable.
        """
        save_param_dict_to_file(self.get_late_bound_consts(byte_limit), path)

    def load_late_bound_consts(self, path: str | os.PathLike) -> None:
        """Load the constants that ``move_late_bound_consts`` wrote.

        Parameters
        ----------
        path : str
            The file.
        """
        self.load_late_bound_consts_from_map(load_param_dict_from_file(path))

    def load_late_bound_consts_from_map(self, map: Mapping[str, NDArray]) -> None:
        """Load constants by name.

        Parameters
        ----------
        map : dict of str to NDArray
            The constants.

        Raises
        ------
        TVMError
            The executable does not have a constant of this name.
        """
        numbers = {slot.name: i for i, slot in enumerate(self.code.constants)}
        for name, value in map.items():
            if name not in numbers:
                raise TVMError(f"the executable does not have a constant named '{name}'")
            self.mod["set_constant"](numbers[name], value if isinstance(value, NDArray) else array(value))

    # ---- contents ----

    def _function(self, name: str) -> vm_code.Function:
        for function in self.code.functions:
            if function.name == name:
                return function
        raise ValueError(f"the executable has no function '{name}'; it has {', '.join(self.globals)}")

    def get_function_params(self, func_name: str) -> list[str]:
        """The names of a function's parameters.

        Parameters
        ----------
        func_name : str
            The function.

        Returns
        -------
        list of str

        Raises
        ------
        ValueError
            The function does not exist.
        """
        return [p.name for p in self._function(func_name).params]

    def function_arity(self, func_name: str) -> int:
        """The number of parameters of a function.

        Parameters
        ----------
        func_name : str
            The function.

        Returns
        -------
        int

        Raises
        ------
        ValueError
            The function does not exist.
        """
        return len(self.get_function_params(func_name))

    @property
    def globals(self) -> list[str]:
        """The names of the functions of the executable."""
        return [f.name for f in self.code.functions]

    @property
    def primitive_ops(self) -> list[str]:
        """The names of the kernels of the executable."""
        return list(self.code.kernels)

    @property
    def bytecode(self) -> str:
        """The instructions of all functions as text."""
        return "\n".join(vm_code.function_text(f, self.code) for f in self.code.functions)

    @property
    def primitives(self) -> str:
        """The kernels as text, numbered."""
        return "".join(f"VM PackedFunc[{i}]: {name}\n" for i, name in enumerate(self.code.kernels))

    @property
    def virtual_devices(self) -> str:
        """The devices as text, numbered."""
        return "".join(f"VM VirtualDevice[{i}]: {Device(kind, 0)}\n" for i, kind in enumerate(self.code.devices))

    @property
    def constants(self) -> str:
        """The constants as text, numbered."""
        lines = []
        for number, (slot, value) in enumerate(zip(self.code.constants, self._arrays())):
            what = "bound late" if value is None else _shape_text(value)
            lines.append(f"VM Const[{number}]: {slot.name} {what} on device index {slot.device}\n")
        return "".join(lines)

    @property
    def stats(self) -> str:
        """The numbers of constants, functions, kernels and instructions, as text."""
        shapes = [_shape_text(a) if a is not None else "bound late" for a in self._arrays()]
        count = sum(len(f.code) for f in self.code.functions)
        return (
            "Relay VM executable statistics:\n"
            f"  Constant shapes (# {len(shapes)}): [{', '.join(shapes)}]\n"
            f"  Globals (#{len(self.globals)}): [{', '.join(f'({n}, {i})' for i, n in enumerate(self.globals))}]\n"
            f"  Primitive ops (#{len(self.primitive_ops)}): [{', '.join(self.primitive_ops)}]\n"
            f"  Instructions: {count}\n"
        )


VMExecutable = Executable


def _new_machine(mod: Module) -> Module:
    """Create a virtual machine. It looks up kernels in C, so code that is compiled lazily is loaded first."""
    for part in mod.with_imports():
        part._load()
    return mod._function_of_c("vm_load_executable")()


# Loaded libraries provide the constants of the executable under these function names.
PYTHON_FUNCTIONS.update(
    {
        (_TYPE_KEY, name): lambda mod, given, name=name: getattr(Executable(mod), name)(given)
        for name in ("load_late_bound_consts", "load_late_bound_consts_from_map")
    }
)
PYTHON_FUNCTIONS[_TYPE_KEY, "vm_load_executable"] = _new_machine


def _shape_text(value: NDArray) -> str:
    return f"{value.dtype}[{', '.join(str(d) for d in value.shape)}]"


class VirtualMachine:
    """A virtual machine, which runs an executable on devices.

    Parameters
    ----------
    exe : Executable or Module
        The executable.
    device : Device or list of Device
        The devices on which it runs, at most one of each type; the CPU is always available.
    memory_cfg : str or dict of Device to str, optional
        The allocator: "pooled" (default) reuses freed memory, "naive" does not; one for all devices, or a mapping.

    Raises
    ------
    TypeError
        ``exe`` is not an executable, or ``device`` is not a device.
    ValueError
        The allocator name is unknown.

    Examples
    --------
    >>> x = relay.var("x", shape=(3,))
    >>> mod = tvm.IRModule.from_expr(relay.Function([x], x + relay.const(1.0)))
    >>> machine = tvm.runtime.vm.VirtualMachine(relay.vm.compile(mod, "llvm"), tvm.cpu())
    >>> machine.run(np.array([1, 2, 3], "float32")).numpy().tolist()
    [2.0, 3.0, 4.0]
    """

    NAIVE_ALLOCATOR = 1
    POOLED_ALLOCATOR = 2

    def __init__(self, exe: Executable | Module, device: Device | Sequence[Device], memory_cfg: Any = None):
        if not isinstance(exe, Executable) and not isinstance(exe, Module):
            raise TypeError(f"VirtualMachine: expected an Executable or a Module, got {type(exe).__name__}")
        self._exec = exe
        # The module of the executable, which may be a remote module.
        self._executable = exe.mod if isinstance(exe, Executable) else exe
        self.module = self._executable["vm_load_executable"]()
        self._set_input = self.module["set_input"]
        self._invoke = self.module["invoke"]
        # The arrays that the next run of each function writes to, by function name.
        self._outputs: dict[str, tuple[NDArray, ...]] = {}
        devices = list(device) if isinstance(device, (list, tuple)) else [device]
        for one in devices:
            if not isinstance(one, Device):
                raise TypeError(f"VirtualMachine: expected a Device, got {type(one).__name__}")
        numbers = []
        for one in devices:
            numbers += [one.device_type % RPC_SESS_MASK, one.device_id, _memory_kind(memory_cfg, one)]
        self.module["init"](*numbers)

    # ---- inputs ----

    def set_input(self, func_name: str, *args, **kwargs) -> None:
        """Set the arguments of a function, by position and by name; they are kept until others are set.

        Parameters
        ----------
        func_name : str
            The function.
        args : optional
            Arguments by position.
        kwargs : optional
            Arguments by name.

        Raises
        ------
        TypeError
            An argument is given twice, is unknown, or is missing.
        """
        self._set_input(func_name, *[give(a) for a in self._in_order(func_name, args, kwargs)])

    def _in_order(self, func_name: str, args: tuple, kwargs: dict) -> list:
        if not kwargs:
            return list(args)
        names = self._parameters(func_name)
        left = names[len(args) :]
        for name in kwargs:
            if name not in left:
                what = "is given by position and by name" if name in names else "is not a parameter"
                raise TypeError(
                    f"argument '{name}' of function '{func_name}' {what}; its parameters are {', '.join(names)}"
                )
        missing = [n for n in left if n not in kwargs]
        if missing:
            raise TypeError(f"argument '{missing[0]}' of function '{func_name}' is missing")
        return [*args, *(kwargs[n] for n in left)]

    def _parameters(self, func_name: str) -> list[str]:
        mod = self._executable
        return [mod["get_function_param_name"](func_name, i) for i in range(mod["get_function_arity"](func_name))]

    def set_one_input(self, func_name: str, *args, **kwargs) -> None:
        """Set one argument of a function: by name or index and value, or as ``name=value``.

        Parameters
        ----------
        func_name : str
            The function.
        args : optional
            The name or index of the argument, and its value.
        kwargs : optional
            The name and the value of the argument.

        Raises
        ------
        TypeError
            The number of arguments is wrong.
        """
        if len(args) + 2 * len(kwargs) != 2:
            raise TypeError("set_one_input: expected one argument, as (name, value) or name=value")
        tag, value = next(iter(kwargs.items())) if kwargs else args
        self.module["set_one_input"](func_name, tag, give(value))

    def get_input_index(self, input_name: str, func_name: str = "main") -> int:
        """The index of a parameter, or -1 if the function has no parameter of this name.

        Parameters
        ----------
        input_name : str
            The parameter.
        func_name : str, optional
            The function.

        Returns
        -------
        int
        """
        return self.module["get_input_index"](input_name, func_name)

    # ---- running ----

    def invoke(self, func_name: str, *args, **kwargs) -> Any:
        """The output of a function: an array, an ``ADT`` for tuples and ADT values, or a closure.

        Without arguments, the arguments that were set before are used.

        Parameters
        ----------
        func_name : str
            The function.
        args : optional
            Arguments by position.
        kwargs : optional
            Arguments by name.

        Returns
        -------
        NDArray, ADT or Closure
        """
        if args or kwargs:
            self.set_input(func_name, *args, **kwargs)
        given = self._outputs.pop(func_name, None)
        if given is None:
            return self._invoke(func_name)
        self.module["invoke_with_outputs"](func_name, *given)
        return given[0] if len(given) == 1 else ADT(0, given)

    def run(self, *args, **kwargs) -> Any:
        """The output of ``main``.

        Parameters
        ----------
        args : optional
            Arguments by position.
        kwargs : optional
            Arguments by name.

        Returns
        -------
        NDArray, ADT or Closure
        """
        return self.invoke("main", *args, **kwargs)

    def invoke_stateful(self, func_name: str, *args, **kwargs) -> None:
        """Run a function and keep its output for ``get_outputs``.

        Parameters
        ----------
        func_name : str
            The function.
        args : optional
            Arguments by position.
        kwargs : optional
            Arguments by name.
        """
        if args or kwargs:
            self.set_input(func_name, *args, **kwargs)
        self.module["invoke_stateful"](func_name)

    def set_outputs(self, func_name: str, *args) -> None:
        """Set the arrays that receive the outputs of the next ``invoke`` of a function.

        Parameters
        ----------
        func_name : str
            The function.
        args : NDArray
            An array for each output.

        Raises
        ------
        TypeError
            An argument is not an array.
        """
        for one in args:
            if not isinstance(one, NDArray):
                raise TypeError(f"set_outputs: expected an NDArray, got {type(one).__name__}")
        self._outputs[func_name] = args

    def invoke_with_outputs(
        self, func_name: str, input_args: Mapping[str, Any], output_args: Sequence[NDArray]
    ) -> None:
        """Run a function and write its outputs to given arrays.

        Parameters
        ----------
        func_name : str
            The function.
        input_args : dict of str to array
            The arguments by name.
        output_args : list of NDArray
            An array for each output.
        """
        if input_args:
            self.set_input(func_name, **input_args)
        self.set_outputs(func_name, *output_args)
        self.invoke(func_name)

    def get_outputs(self) -> list:
        """The outputs of the last ``invoke_stateful``, as a list.

        Returns
        -------
        list
        """
        return [self.module["get_output"](i) for i in range(self.module["get_num_outputs"]())]

    def benchmark(
        self, device: Device, *args, func_name: str = "main", repeat: int = 5, number: int = 5,
        min_repeat_ms: int | None = None, limit_zero_time_iterations: int = 100, end_to_end: bool = False,
        cooldown_interval_ms: int = 0, repeats_to_cooldown: int = 1, **kwargs,
    ) -> BenchmarkResult:  # fmt: skip
        """The times of whole runs; ``end_to_end`` includes setting the inputs and copying the outputs.

        Parameters
        ----------
        device : Device
            The device whose clock is used.
        args : optional
            Arguments by position.
        func_name : str, optional
            The function.
        repeat : int, optional
            The number of results.
        number : int, optional
            The number of runs that are averaged for one result.
        min_repeat_ms : int, optional
            The minimum duration of a repeat in milliseconds.
        limit_zero_time_iterations : int, optional
            The maximum number of retries of a repeat with a measured time of zero.
        end_to_end : bool, optional
            Whether to include setting the inputs and copying the outputs.
        cooldown_interval_ms : int, optional
            The duration of a pause between repeats in milliseconds.
        repeats_to_cooldown : int, optional
            The number of repeats between pauses.
        kwargs : optional
            Arguments by name.

        Returns
        -------
        BenchmarkResult
        """
        if end_to_end:
            return self._end_to_end(func_name, args, kwargs, repeat, number or 1)
        if args or kwargs:
            self.set_input(func_name, *args, **kwargs)
        return self.module.time_evaluator(
            "invoke", device, repeat=repeat, number=number or 1, min_repeat_ms=min_repeat_ms or 0,
            limit_zero_time_iterations=limit_zero_time_iterations, cooldown_interval_ms=cooldown_interval_ms,
            repeats_to_cooldown=repeats_to_cooldown,
        )(func_name)  # fmt: skip

    def _end_to_end(self, func_name: str, args: tuple, kwargs: dict, repeat: int, number: int) -> BenchmarkResult:
        import time

        results = []
        for _ in range(repeat):
            start = time.perf_counter()
            for _ in range(number):
                _to_host(self.invoke(func_name, *args, **kwargs))
            results.append((time.perf_counter() - start) / number)
        return BenchmarkResult(results)


def _to_host(value: Any) -> None:
    """Copy the outputs of a run to the host, as a caller would."""
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, ADT):
            waiting.extend(one)
        elif isinstance(one, NDArray):
            one.numpy()


def _memory_kind(config: Any, device: Device) -> int:
    wanted = config.get(device, "pooled") if isinstance(config, Mapping) else config or "pooled"
    kinds = {"naive": VirtualMachine.NAIVE_ALLOCATOR, "pooled": VirtualMachine.POOLED_ALLOCATOR}
    if wanted not in kinds:
        raise ValueError(f"memory_cfg: unknown allocator {wanted!r}; expected naive or pooled")
    return kinds[wanted]


__all__ = ["Closure", "Executable", "VMClosure", "VMExecutable", "VirtualMachine"]
