"""The virtual machine under the path that scripts import it by."""

from .backend.vm import Executable, VirtualMachine, VMCompiler, VMExecutor, compile, needs_vm, optimize

__all__ = ["Executable", "VMCompiler", "VMExecutor", "VirtualMachine", "compile", "needs_vm", "optimize"]
