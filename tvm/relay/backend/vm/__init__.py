"""Compilation for the virtual machine: programs with branches, recursion, closures and algebraic data types."""

from ....runtime.vm import Executable, VirtualMachine
from .compiler import VMCompiler, VMExecutor, compile, optimize
from .needed import needs_vm

__all__ = ["Executable", "VMCompiler", "VMExecutor", "VirtualMachine", "compile", "needs_vm", "optimize"]
