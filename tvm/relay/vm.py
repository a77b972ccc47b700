"""The virtual machine under the module path that scripts import."""

from .backend.vm import Executable, VirtualMachine, VMCompiler, VMExecutor, compile, needs_vm, optimize

__all__ = ["Executable", "VMCompiler", "VMExecutor", "VirtualMachine", "compile", "needs_vm", "optimize"]
