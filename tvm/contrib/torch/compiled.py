"""The class of compiled models, which ``torch.load`` imports by name. Importing this file imports PyTorch."""

from __future__ import annotations

from typing import Any

import torch  # pyright: ignore[reportMissingImports]

from .programs import Library


class CompiledModule(torch.nn.Module):
    """A compiled model on one device. ``torch.save`` stores its compiled code, which runs on machines of the same type.

    Parameters
    ----------
    library : Library
        The compiled code.
    device : torch.device
        The device of its inputs.
    """

    def __init__(self, library: Library, device: torch.device):
        super().__init__()
        self.library, self.device = library, device
        self.run = library.on(device)

    def forward(self, *inputs):
        """Run the model.

        Parameters
        ----------
        *inputs : torch.Tensor
            The inputs of the model.

        Returns
        -------
        torch.Tensor or tuple of torch.Tensor
        """
        results = self.run([v.detach() for v in inputs])
        return results[0] if len(results) == 1 else tuple(results)

    def __getstate__(self) -> dict[str, Any]:
        state = {name: value for name, value in self.__dict__.items() if name != "run"}
        return {**state, "library": self.library.packed()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__({**state, "library": state["library"].unpacked()})
        self.run = self.library.on(self.device)


__all__ = ["CompiledModule"]
