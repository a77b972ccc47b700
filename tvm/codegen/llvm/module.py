"""The text of an LLVM module: its functions, their declarations, and shared constants."""

from __future__ import annotations

import re

from ...dtype import info, with_lanes
from ...target.cpu import ResolvedCPU
from .intrinsic import mangled
from .types import Types, byte_string

TABLE = "__tvm_runtime_table"
CONTEXT = "__tvm_module_ctx"
_PLAIN = re.compile(r"^[A-Za-z_.$][A-Za-z0-9_.$]*$")


def symbol(name: str) -> str:
    """Return a global name as LLVM text."""
    return f"@{name}" if _PLAIN.match(name) else f'@"{name}"'


class ModuleText:
    """The parts of a module. All parts are stored in the order of first use, so that the text depends only on the
    program."""

    def __init__(self, cpu: ResolvedCPU, float_flags: str = ""):
        self.cpu = cpu
        # Fast-math flags of the target, in LLVM syntax.
        self.float_flags = float_flags
        self.native_half = cpu.has_half
        can_convert = self.native_half or cpu.arch == "aarch64" or cpu.has("f16c")
        self.types = Types("half" if can_convert else "i16")
        self.index_type = "i32" if _is_32_bit(cpu.triple) else "i64"
        self.functions: list[str] = []
        # Public function names and their symbols, and the LLVM return types of symbols.
        self.names: dict[str, str] = {}
        self.defined: dict[str, str] = {}
        # Symbols that are private to this text.
        self.private: set[str] = set()
        self.declared: dict[str, str] = {}
        self.constants: list[str] = []
        self.metadata: list[str] = []
        self.imported: list[str] = []
        self.speculatable: dict[int, tuple] = {}
        self.accesses: dict[int, tuple] = {}
        self.variables: dict[int, tuple] = {}
        # Generated helper functions by symbol, such as formulas for exp.
        self.helpers: dict[str, str] = {}
        self.entry_name = ""
        # False if another text that this one is linked with defines the variables that the loader writes.
        self.defines_variables = True
        self.parallel_regions = 0
        self.pointer_bytes = 4 if self.index_type == "i32" else 8
        # Functions of the module by internal name: (symbol, LLVM return type).
        self.callees: dict[str, tuple[str, str]] = {}
        self._packed: dict[str, str] = {}
        self._shared: dict[str, str] = {}
        self._strings: dict[bytes, str] = {}
        self._weights: str | None = None
        self._loop_rules: tuple[str, ...] = ()
        # Whether loops contain loop-invariant conditions, which LLVM should unswitch.
        self.has_loop_conditions = False
        # Whether a loop is left to LLVM's vectorizer.
        self.wants_vectors = False

    def float32_like(self, dtype: str) -> str:
        return with_lanes("float32", info(dtype).lanes)

    def declare(self, name: str, result: str, arguments: str) -> str:
        """Declare an external function."""
        text = symbol(name)
        if name not in self.defined and name not in self.declared:
            self.declared[name] = f"declare {result} {text}({arguments})"
        return text

    def intrinsic(self, name: str, type_text: str, arity: int, tail: str = "") -> str:
        """Declare ``llvm.NAME`` for one type; ``tail`` contains further parameter types."""
        arguments = ", ".join([type_text] * arity)
        return self.declare(f"llvm.{name}.{mangled(type_text)}", type_text, arguments + tail)

    def string(self, text: str) -> str:
        return self.bytes_constant(text.encode() + b"\0")

    def bytes_constant(self, data: bytes, align: int = 1) -> str:
        got = self._strings.get(data)
        if got is None:
            got = self._strings[data] = f"@.str.{len(self._strings)}"
            kind = f"[{len(data)} x i8]"
            self.constants.append(f"{got} = private unnamed_addr constant {kind} {byte_string(data)}, align {align}")
        return got

    def shared_constant(self, text: str) -> str:
        """Return a private constant; ``text`` is its type and value."""
        got = self._shared.get(text)
        if got is None:
            got = self._shared[text] = f"@.const.{len(self._shared)}"
            self.constants.append(f"{got} = private constant {text}, align 8")
        return got

    def packed_handle(self, name: str) -> str:
        """Return the variable that caches the handle of the packed function ``name``."""
        got = self._packed.get(name)
        if got is None:
            got = self._packed[name] = f"@.packed.{len(self._packed)}"
            self.constants.append(f"{got} = internal global ptr null, align {self.pointer_bytes}")
        return got

    def callee(self, name: str) -> tuple[str, str | None]:
        """Return the symbol and return type of a function of this module, or the name and None for any other
        function."""
        return self.callees.get(name, (name, None))

    def symbol(self, name: str) -> str:
        return symbol(name)

    def import_text(self, text: str) -> None:
        """Link user-defined LLVM text (or the .ll file at the given path) into the module."""
        if text not in self.imported:
            self.imported.append(text)

    def likely(self) -> str:
        """Return the metadata for a branch that is taken in nearly all cases."""
        if self._weights is None:
            self._weights = self.add_metadata('!{!"branch_weights", i32 1048576, i32 1}')
        return f", !prof {self._weights}"

    def add_metadata(self, text: str) -> str:
        name = f"!{len(self.metadata)}"
        self.metadata.append(f"{name} = {text}")
        return name

    def loop_metadata(self, vectorize: bool) -> str:
        """Return the loop metadata. LLVM does not unroll, because the schedule decides this; it vectorizes only loops
        that the schedule leaves scalar."""
        if not self._loop_rules:
            self._loop_rules = (
                self.add_metadata('!{!"llvm.loop.unroll.disable"}'),
                self.add_metadata('!{!"llvm.loop.vectorize.enable", i1 false}'),
            )
        rules = self._loop_rules[:1] if vectorize else self._loop_rules
        name = f"!{len(self.metadata)}"
        self.metadata.append(f"{name} = distinct !{{{', '.join((name, *rules))}}}")
        self.wants_vectors |= vectorize
        return f", !llvm.loop {name}"

    def register_symbols(self) -> None:
        """Register the functions with the runtime at program start, for statically linked code."""
        function = self.declare("TVMBackendRegisterSystemLibSymbol", "i32", "ptr, ptr")
        lines = ["define internal void @.register() #0 {", "entry:"]
        for name, own in {TABLE: TABLE, CONTEXT: CONTEXT, **self.names}.items():
            lines.append(f"  call i32 {function}(ptr {self.string(name)}, ptr {symbol(own)})")
        self.functions.append("\n".join([*lines, "  ret void", "}", ""]))
        kind = "{ i32, ptr, ptr }"
        row = f"{kind} {{ i32 65535, ptr @.register, ptr null }}"
        self.constants.append(f"@llvm.global_ctors = appending global [1 x {kind}] [{row}]")

    def text(self, name: str, layout: str) -> str:
        lines = [f'source_filename = "{name}"', f'target datalayout = "{layout}"']
        lines.append(f'target triple = "{self.cpu.triple}"')
        lines += self.runtime_lines()
        lines += self.constants
        lines += [text for name, text in self.declared.items() if name not in self.defined]
        lines += self.functions
        lines += self.helpers.values()
        cpu = self.attributes()
        lines.append(f"attributes #0 = {{ noinline nounwind{cpu} }}")
        lines.append(f"attributes #1 = {{ alwaysinline nounwind memory(none){cpu} }}")
        lines.append(f"attributes #2 = {{ noinline cold nounwind memory(none){cpu} }}")
        lines.append("attributes #3 = { nobuiltin nounwind }")
        lines += self.metadata
        return "\n".join(lines) + "\n"

    def runtime_lines(self) -> list[str]:
        """Define the variables that the loader writes, and the name of the entry function.

        Only one text of a library may define the variables. Code accesses a variable of its own object relative to the
        program counter, and one of another object through an address table. A JIT maps each object separately, and in a
        process with large mappings objects may be more than 2 GiB apart."""
        if not self.defines_variables:
            return [f"@{TABLE} = external global ptr, align 8", f"@{CONTEXT} = external global ptr, align 8"]
        guard = "protected " if "linux" in self.cpu.triple or "elf" in self.cpu.triple else ""
        variables = {TABLE: "global ptr null", CONTEXT: "global ptr null"}
        if self.entry_name:
            data = self.entry_name.encode() + b"\0"
            variables["__tvm_main__"] = f"constant [{len(data)} x i8] {byte_string(data)}"
        # A library of Windows does not export a weak symbol unless it is in a comdat.
        is_coff = "windows" in self.cpu.triple
        lines = [f"${name} = comdat any" for name in variables if is_coff]
        comdat = ", comdat" if is_coff else ""
        for name, value in variables.items():
            align = "" if name == "__tvm_main__" else ", align 8"
            lines.append(f"@{name} = weak {guard}{value}{comdat}{align}")
        return lines

    def attributes(self) -> str:
        """Return the function attributes for the processor. They are also in the target machine; in the text, they make
        a saved .ll or .bc file complete."""
        cpu = f' "target-cpu"="{self.cpu.cpu}" "target-features"="{self.cpu.features_text}"'
        if self.cpu.arch == "x86":
            cpu += f' "prefer-vector-width"="{self.cpu.vector_bits}"'
        return cpu


def _is_32_bit(triple: str) -> bool:
    head = triple.split("-")[0]
    return head in ("i386", "i486", "i586", "i686", "arm", "wasm32", "riscv32", "hexagon") or head.startswith(
        ("armv", "thumb")
    )
