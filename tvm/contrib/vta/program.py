"""Programs of instructions with their data, which the simulators, the interpreter, the checker and the RTL run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from . import isa
from .config import Config
from .isa import Instruction

_ALIGNMENT = 64


class Program:
    """Instructions, and an image of DRAM whose first byte has the address 0.

    Parameters
    ----------
    config : Config
        The sizes of the accelerator.
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        self.instructions: list[Instruction] = []
        self.image = bytearray()

    def place(self, data: np.ndarray, memory: str) -> int:
        """Append data to the image of DRAM.

        Parameters
        ----------
        data : np.ndarray
            The data, of a whole number of elements.
        memory : str
            The memory whose elements the data are.

        Returns
        -------
        int
            The address in elements: ``dram_base`` of a load or store.

        Raises
        ------
        ValueError
            The data are not a whole number of elements.
        """
        element = self.config.element_bytes[memory]
        raw = np.ascontiguousarray(data).tobytes()
        if len(raw) % element:
            raise ValueError(f"{len(raw)} bytes are not a whole number of {memory} elements of {element} bytes")
        alignment = max(element, _ALIGNMENT)
        self.image += bytes(-len(self.image) % alignment)
        base = len(self.image) // element
        self.image += raw
        return base

    def place_uops(self, uops: Iterable[Sequence[int]]) -> int:
        """Append micro-ops to the image of DRAM.

        Parameters
        ----------
        uops : Iterable[Sequence[int]]
            The indices ``dst``, ``src`` and ``wgt`` of each micro-op.

        Returns
        -------
        int
            The address in micro-ops.
        """
        words = [isa.encode_uop(self.config, *uop) for uop in uops]
        return self.place(np.array(words, "<u4"), "uop")

    def add(self, opcode: str, *tokens: str, **fields: int | str) -> Instruction:
        """Append an instruction.

        Parameters
        ----------
        opcode : str
            The name of the instruction.
        tokens : str
            Its token flags, for example ``"pop_next_dep"``.
        fields : int | str
            Its other fields.

        Returns
        -------
        Instruction
            The instruction.
        """
        instruction = Instruction(opcode, **fields).with_tokens(*tokens)  # type: ignore[arg-type]
        self.instructions.append(instruction)
        return instruction

    def code(self, address: int = 0) -> bytes:
        """Encode the instructions.

        Parameters
        ----------
        address : int
            The physical address of the image.

        Returns
        -------
        bytes
            The instructions.
        """
        sizes = self.config.element_bytes
        return b"".join(
            isa.encode(self.config, replace(i, dram_base=i.dram_base + address // sizes[i.memory_type]))
            if i.opcode in ("LOAD", "STORE")
            else isa.encode(self.config, i)
            for i in self.instructions
        )

    def read(self, base: int, count: int, memory: str = "out") -> np.ndarray:
        """Read elements of the image.

        Parameters
        ----------
        base : int
            The address in elements.
        count : int
            The number of elements.
        memory : str
            The memory whose elements they are.

        Returns
        -------
        np.ndarray
            The values, one element in each row.
        """
        element = self.config.element_bytes[memory]
        dtype = {"uop": "<u4", "acc": "<i4"}.get(memory, "i1")
        return np.frombuffer(self.image, dtype, count * element // np.dtype(dtype).itemsize, base * element).reshape(
            count, -1
        )
