"""Run models that were compiled ahead of time."""

from __future__ import annotations

from typing import Any

from .. import ndarray
from ..container import Map, ShapeTuple, String


class AotModule:
    """A model that was compiled ahead of time, with its inputs and outputs. Weights are not inputs.

    Parameters
    ----------
    module : Module
        The executor that the factory returned, as in ``lib["default"](tvm.cpu())``.

    Examples
    --------
    >>> x = relay.var("x", shape=(2,))
    >>> mod = tvm.IRModule.from_expr(relay.nn.relu(x))
    >>> lib = relay.build(mod, target="llvm", executor=relay.backend.Executor("aot"))
    >>> runner = tvm.runtime.executor.AotModule(lib["default"](tvm.cpu()))
    >>> runner.run(x=np.array([-1, 1], "float32"))
    >>> runner.get_output(0).numpy().tolist()
    [0.0, 1.0]
    """

    def __init__(self, module: Any):
        self.module = module
        self._names = [module["get_input_name"](i) for i in range(module["get_num_inputs"]())]

    def _index(self, key: str | int) -> int:
        found = key if isinstance(key, int) else self.get_input_index(key)
        if 0 <= found < len(self._names):
            return found
        raise RuntimeError(f"the model has no input {key!r}; its inputs are {', '.join(self._names) or 'none'}")

    def _type(self, index: int) -> tuple[str, tuple[int, ...]]:
        dtype, *shape = self.module["describe_input"](index).split(" ")
        return dtype, tuple(map(int, shape))

    def set_input(self, key: str | int | None = None, value: Any = None, **params: Any) -> None:
        """Set inputs.

        Parameters
        ----------
        key : str or int, optional
            The name or the index of an input.
        value : NDArray or numpy.ndarray, optional
            The data of this input, which is converted to its type.
        **params
            Further inputs by name.

        Raises
        ------
        RuntimeError
            The model has no such input.
        ValueError
            The data has another shape than the input.
        """
        for name, data in [*([] if key is None else [(key, value)]), *params.items()]:
            index = self._index(name)
            dtype, shape = self._type(index)
            if tuple(data.shape) != shape:
                raise ValueError(f"input '{self._names[index]}' has shape {shape}, got {tuple(data.shape)}")
            if not isinstance(data, ndarray.NDArray) or data.dtype != dtype:
                data = ndarray.empty(shape, dtype).copyfrom(data)
            self.module["set_input"](index, data)

    def run(self, **input_dict: Any) -> None:
        """Run the model.

        Parameters
        ----------
        **input_dict
            Inputs that are set first, by name.
        """
        self.set_input(**input_dict)
        self.module["run"]()

    def get_num_outputs(self) -> int:
        """Return the number of outputs.

        Returns
        -------
        int
        """
        return self.module["get_num_outputs"]()

    def get_num_inputs(self) -> int:
        """Return the number of inputs.

        Returns
        -------
        int
        """
        return len(self._names)

    def get_input(self, index: str | int, out: Any = None) -> Any:
        """Return the data of an input.

        Parameters
        ----------
        index : str or int
            The name or the index of the input.
        out : NDArray, optional
            An array that the data is copied to.

        Returns
        -------
        NDArray
            The array of the executor, or ``out``.
        """
        array = self.module["get_input"](self._index(index))
        return array if out is None else array.copyto(out)

    def get_input_index(self, name: str) -> int:
        """Return the index of an input.

        Parameters
        ----------
        name : str
            The name of the input.

        Returns
        -------
        int
            The index; -1 if there is no such input.
        """
        return self.module["get_input_index"](name)

    def get_output(self, index: int, out: Any = None) -> Any:
        """Return an output.

        Parameters
        ----------
        index : int
            The index of the output.
        out : NDArray, optional
            An array that the output is copied to.

        Returns
        -------
        NDArray
            The array of the executor, or ``out``.
        """
        array = self.module["get_output"](index)
        return array if out is None else array.copyto(out)

    def get_input_name(self, index: int) -> str:
        """Return the name of an input.

        Parameters
        ----------
        index : int
            The index of the input.

        Returns
        -------
        str
        """
        return self._names[self._index(index)]

    def get_input_info(self) -> tuple[Map, Map]:
        """Return the shapes and the data types of the inputs by name.

        Returns
        -------
        tuple of Map
        """
        types = {name: self._type(i) for i, name in enumerate(self._names)}
        shapes = {name: ShapeTuple(shape) for name, (_, shape) in types.items()}
        return Map(shapes), Map({name: String(dtype) for name, (dtype, _) in types.items()})


__all__ = ["AotModule"]
