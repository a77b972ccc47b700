"""GPU kernels by LLVM: the common parts of its GPU targets.

Functions are emitted like those of a CPU, with generic pointers; LLVM infers their address spaces. ``Device`` describes
the differences: how to mark a kernel, thread indices, barriers, and shared memory. Mathematical functions are expanded
to formulas, because a GPU has no library to call.
"""

from __future__ import annotations

from typing import NamedTuple

from ...dtype import element, info
from ...error import TVMError
from ...ir.module import IRModule
from ...ir.prim import IntImm, Var
from ...target.cpu import ResolvedCPU
from ...tir.function import PrimFunc
from ...tir.stmt import Allocate, AttrStmt, Stmt
from ..gpu_like import PROMOTED, SHARED, Kernel, Limits, check_limits
from . import jit as llvm_jit
from .build import prim_functions
from .builder import Builder, clean
from .module import ModuleText
from .stmt import emit


class Device(NamedTuple):
    """A GPU target of LLVM."""

    arch: str
    convention: str
    # Thread axes: the intrinsic that returns the index. Barriers: the instructions that synchronize threads.
    axes: dict[str, str]
    barrier: tuple[str, ...]
    # The attribute of a kernel for the number of threads of a block.
    block_size: str
    # Address space of the stack; zero is the generic address space.
    stack: int = 0
    # Module flags of LLVM.
    flags: tuple[tuple[str, int], ...] = ()


class DeviceText(ModuleText):
    """The text of a module of kernels."""

    def __init__(self, cpu: ResolvedCPU, device: Device):
        super().__init__(cpu)
        self.device = device
        self.flags = [self.add_metadata(f'!{{i32 1, !"{name}", i32 {value}}}') for name, value in device.flags]

    def runtime_lines(self) -> list[str]:
        return [f"!llvm.module.flags = !{{{', '.join(self.flags)}}}"] if self.flags else []

    def loop_metadata(self, vectorize: bool) -> str:
        return ""

    def attributes(self) -> str:
        return f' "target-cpu"="{self.cpu.cpu}" "target-features"="{self.cpu.features_text}"'


class KernelBuilder(Builder):
    """A builder of a kernel."""

    def __init__(self, module: DeviceText, name: str):
        super().__init__(module, name)
        self.machine = module.device
        # The statement emitters call this object for operations that differ from those of a CPU.
        self.device = self
        self.result = "void"
        self.sizes: dict[str, int] = {}
        self.shared_bytes = 0
        self.dynamic_bytes = 0

    def alloca(self, type_text: str, align: int = 64, hint: str = "buffer") -> str:
        align = min(align, 16)
        if not self.machine.stack:
            return super().alloca(type_text, align, hint)
        place, name = self.fresh(clean(hint) + "."), self.fresh(clean(hint) + ".")
        space = f"addrspace({self.machine.stack})"
        self.entry.append(f"  {place} = alloca {type_text}, align {align}, {space}")
        self.entry.append(f"  {name} = addrspacecast ptr {space} {place} to ptr")
        return name

    def thread_axis(self, stmt: AttrStmt) -> Stmt:
        """Return the index of a thread along an axis."""
        tag, var = getattr(stmt.node, "thread_tag", ""), stmt.node.var
        intrinsic = self.machine.axes.get(tag)
        if intrinsic is None:
            known = ", ".join(self.machine.axes)
            raise TVMError(f"{self.name}: unknown thread axis {tag or stmt.node}; use one of {known}")
        known = stmt.value.value if isinstance(stmt.value, IntImm) else 0
        if tag.startswith("threadIdx."):
            self.sizes.setdefault(tag, known)
        function = self.module.declare(intrinsic, "i32", "")
        got = self.op(f"call i32 {function}()")
        if var.dtype == "int64":
            got = self.op(f"zext i32 {got} to i64")
        self.remember(var, got)
        self.level[var] = 0
        self.ranges.bind(var, (0, known - 1 if known else (1 << 31) - 1), index=True)
        return stmt.body

    def wait(self, scope: str) -> None:
        if scope not in SHARED:
            raise TVMError(
                f"{self.name}: a barrier for memory of scope '{scope}' is not supported on {self.machine.arch}"
            )
        for line in self.machine.barrier:
            if "@" in line:
                name = line[line.index("@") + 1 : line.index("(")]
                self.module.declare(name, "void", "i32" if "(i32" in line else "")
            self.line(line)
        self.forget_memory()

    def allocate(self, stmt: Allocate) -> str | None:
        """Return a pointer to shared memory, or None for thread-local memory."""
        var = stmt.buffer_var
        scope = getattr(var.type_annotation, "storage_scope", "") or "global"
        if scope not in SHARED:
            if scope not in ("local", "warp"):
                raise TVMError(f"{self.name}: buffer {var.name} in scope {scope} cannot be allocated inside a kernel")
            return None
        kind = info(stmt.dtype)
        count = kind.lanes
        for extent in stmt.extents:
            if not isinstance(extent, IntImm):
                raise TVMError(f"{self.name}: buffer {var.name} in scope {scope} needs a constant size")
            count *= extent.value
        # PTX does not allow dots in names.
        symbol = f"@{self.name}_{clean(var.name)}_{len(self.module.constants)}".replace(".", "_")
        if scope == "shared":
            self.shared_bytes += count * kind.bytes
            unit = "i8" if kind.is_bool else self.types[element(stmt.dtype)]
            value = f"internal addrspace(3) global [{max(count, 1)} x {unit}] undef, align 16"
        else:
            self.dynamic_bytes += count * kind.bytes
            value = "external addrspace(3) global [0 x i8], align 16"
        self.module.constants.append(f"{symbol} = {value}")
        name = self.fresh(clean(var.name) + ".")
        self.entry.append(f"  {name} = addrspacecast ptr addrspace(3) {symbol} to ptr")
        return name


def emit_kernels(
    mod: IRModule, cpu: ResolvedCPU, device: Device, limits: Limits
) -> tuple[DeviceText, dict[str, Kernel]]:
    """Return the LLVM text of kernels and the launch properties of each."""
    module, kernels = DeviceText(cpu, device), {}
    for name, function in prim_functions(mod):
        symbol = str(function.attrs.get("global_symbol") or name)
        if symbol in kernels:
            raise TVMError(f"two kernels of the module have the same name '{symbol}'")
        kernels[symbol] = _emit_kernel(module, symbol, function, limits)
    return module, kernels


def _emit_kernel(module: DeviceText, symbol: str, function: PrimFunc, limits: Limits) -> Kernel:
    b = KernelBuilder(module, symbol)
    noalias = bool(function.attrs.get("tir.noalias"))
    module.defined[symbol] = "void"
    parameters = [_parameter(b, param, number, noalias) for number, param in enumerate(function.params)]
    emit(b, function.body)
    if not b.terminated:
        b.finish("ret void")
    threads = 1
    for axis in "xyz":
        threads *= b.sizes.get(f"threadIdx.{axis}", 1)
    marks = _size_marks(module.device, threads)
    name = f"{module.device.convention} void {module.symbol(symbol)}"
    head = f"define {name}({', '.join(parameters)}) #0{marks} {{\nentry:"
    module.functions.append("\n".join([head, *b.entry, *b.out, "}", ""]))
    args = tuple(PROMOTED.get(var.dtype, var.dtype) for var in function.params)
    launch = tuple(str(tag) for tag in function.attrs.get("tir.kernel_launch_params", ()))
    kernel = Kernel(args, launch, threads, b.shared_bytes)
    check_limits(symbol, kernel, b.dynamic_bytes, limits)
    return kernel


def _size_marks(device: Device, threads: int) -> str:
    return " " + device.block_size.format(threads) if threads else ""


def _parameter(b: KernelBuilder, param: Var, number: int, noalias: bool) -> str:
    given = f"%a{number}"
    b.level[param] = 0
    if param.dtype == "handle":
        name = f"%p{number}"
        b.entry.append(f"  {name} = addrspacecast ptr addrspace(1) {given} to ptr")
        b.remember(param, name)
        if noalias:
            b.private.add(param)
        # The widest access has 16 bytes; device memory is allocated with a greater alignment.
        b.alignment[param] = 16
        return f"ptr addrspace(1){' noalias' if noalias else ''} align 16 {given}"
    passed = PROMOTED.get(param.dtype, param.dtype)
    b.remember(param, given)
    if passed != param.dtype:
        from .cast import convert

        b.remember(param, convert(b, passed, param.dtype, given))
    return f"{b.types[passed]} {given}"


def machine_of(cpu: ResolvedCPU):
    return llvm_jit.target_machine(cpu.triple, cpu.cpu, cpu.features_text, 3)


def optimized(module: DeviceText):
    """Return the LLVM module of a text after LLVM's optimization passes."""
    layout = str(machine_of(module.cpu).target_data)
    parsed = llvm_jit.parse(module.text("tvm", layout), [llvm_jit.read_import(text) for text in module.imported])
    # A local array is kept in registers only if all its indices are constant, so short loops are unrolled.
    llvm_jit.optimize(parsed, machine_of(module.cpu), 3, vectorize=False, unroll=True)
    return parsed


def gpu_processor(triple: str, arch: str, name: str, features: tuple[str, ...] = ()) -> ResolvedCPU:
    """Return the processor features of a GPU that the expression emitters query."""
    return ResolvedCPU(
        triple, arch, name, features, frozenset(("fma", "fullfp16", "rounding")), is_host=False, vector_bits=128,
        num_vector_registers=0, cores=0, l1_bytes=0, l2_bytes=0, l3_bytes=0,
    )  # fmt: skip
