"""Executors of models on a board, with the functions of the runtime's executor modules: this machine stores the graph,
the board stores the values and runs the kernels."""

from __future__ import annotations

import array
import json
from collections.abc import Callable
from typing import Any

from ..error import TVMError
from ..runtime.benchmark import BenchmarkResult
from ..runtime.params import load_param_dict
from .board import Board, BoardArray
from .graph_storage import block_sizes, entries_of

_BUILT_IN = ("__nop", "__copy")


class BoardExecutor:
    """The common part of the executors: inputs and outputs by index. ``module[name]`` returns a function, as for
    runtime modules.

    Parameters
    ----------
    board : Board
        The board.
    inputs : dict of str to BoardArray
        The inputs.
    outputs : list of BoardArray
        The outputs.
    """

    type_key = "rpc"

    def __init__(self, board: Board, inputs: dict[str, BoardArray], outputs: list[BoardArray]):
        self.board, self._inputs, self._outputs = board, inputs, outputs
        self._names = list(inputs)

    def __getitem__(self, name: str) -> Callable[..., Any]:
        function = getattr(type(self), name, None)
        if name.startswith("_") or not callable(function):
            raise AttributeError(f"executors on a board have no function '{name}'")
        return getattr(self, name)

    def get_function(self, name: str) -> Callable[..., Any]:
        """Return a function of the executor.

        Parameters
        ----------
        name : str
            The name.

        Returns
        -------
        callable
            The function.
        """
        return self[name]

    def get_num_inputs(self) -> int:
        """Return the number of inputs."""
        return len(self._names)

    def get_num_outputs(self) -> int:
        """Return the number of outputs."""
        return len(self._outputs)

    def get_input_name(self, index: int) -> str:
        """Return the name of an input.

        Parameters
        ----------
        index : int
            The index.
        """
        return self._names[index]

    def get_input_index(self, name: str) -> int:
        """Return the index of an input, or -1.

        Parameters
        ----------
        name : str
            The name.
        """
        return self._names.index(name) if name in self._inputs else -1

    def describe_input(self, index: int) -> str:
        """Return the data type and the dimensions of an input, separated by spaces.

        Parameters
        ----------
        index : int
            The index.
        """
        found = self.get_input(index)
        return " ".join([found.dtype, *map(str, found.shape)])

    def get_input(self, index: int) -> BoardArray:
        """Return the array of an input.

        Parameters
        ----------
        index : int
            The index.
        """
        return self._inputs[self._names[index]]

    def get_output(self, index: int) -> BoardArray:
        """Return the array of an output.

        Parameters
        ----------
        index : int
            The index.
        """
        if not 0 <= index < len(self._outputs):
            raise TVMError(f"output index {index} is out of range; the model has {len(self._outputs)} outputs")
        return self._outputs[index]

    def set_input(self, index: int, value: Any) -> None:
        """Copy an array to an input.

        Parameters
        ----------
        index : int
            The index.
        value : array
            The array.
        """
        if value is not self.get_input(index):
            self.get_input(index).copyfrom(value)

    def _run_times(self, number: int) -> float:
        raise NotImplementedError(f"{type(self).__name__} does not define _run_times")

    def run(self) -> None:
        """Run the model."""
        self._run_times(1)

    def time_evaluator(self, func_name: str, dev: Any = None, **options: int) -> Callable[[], BenchmarkResult]:
        """Return a function that measures runs of the model on the clock of the board.

        Parameters
        ----------
        func_name : str
            The function, which must be "run".
        dev : Device, optional
            Ignored, because a board has one clock.
        **options
            The options of ``Module.time_evaluator``.

        Returns
        -------
        callable
            The function; it returns a ``BenchmarkResult``.
        """
        if func_name != "run":
            raise TVMError(f"executors on a board measure the function run, got '{func_name}'")
        return lambda: self.board.evaluator(self._run_times, **options)


class BoardModel(BoardExecutor):
    """A model that was compiled ahead of time.

    Parameters
    ----------
    board : Board
        The board, whose library has one model.

    Raises
    ------
    TVMError
        The library has no model, or several.
    """

    def __init__(self, board: Board):
        mains = [function for name, function in board.functions.items() if name.endswith("___tvm_main__")]
        if len(mains) != 1:
            raise TVMError(
                f"the board has {len(mains)} models that were compiled ahead of time; create_aot_executor requires "
                "one, compiled with the executor aot"
            )
        self._main = mains[0]
        self._arrays = [board.empty(about.shape, about.dtype) for about in self._main.arguments]
        pairs = list(zip(self._main.arguments, self._arrays))
        inputs = {about.name: array for about, array in pairs if not about.is_output}
        super().__init__(board, inputs, [array for about, array in pairs if about.is_output])

    def _run_times(self, number: int) -> float:
        return self.board.call(self._main, [array.offset for array in self._arrays], number)


class BoardGraph(BoardExecutor):
    """A graph whose nodes run on the board, one after the other.

    Parameters
    ----------
    board : Board
        The board.
    graph_json : str
        The graph as JSON.

    Raises
    ------
    TVMError
        The graph is not valid, or does not fit the functions of the board.
    """

    def __init__(self, board: Board, graph_json: str):
        try:
            graph = json.loads(graph_json)
            self._nodes, self._rows = graph["nodes"], graph["node_row_ptr"]
            self._entries = entries_of(graph)
            names = {self._nodes[number]["name"]: self._rows[number] for number in graph["arg_nodes"]}
            heads = [self._rows[node] + index for node, index, *_ in graph["heads"]]
        except (ValueError, KeyError, TypeError, IndexError) as error:
            raise TVMError(f"the text is not a graph: {error}") from error
        self.board = board
        self._blocks = {number: board.empty((size,), "uint8") for number, size in block_sizes(self._entries).items()}
        self._steps = [self._step(number) for number in range(len(self._nodes))]
        inputs = {name: self._array(entry) for name, entry in names.items()}
        super().__init__(board, inputs, [self._array(entry) for entry in heads])

    def _array(self, number: int) -> BoardArray:
        entry = self._entries[number]
        block = self._blocks[entry.block]
        return BoardArray(self.board, block.offset + entry.offset, entry.shape, entry.dtype, block)

    def _step(self, number: int) -> Callable[[int], float]:
        """Return the function that runs a node a number of times and returns the time in seconds."""
        node = self._nodes[number]
        name = node.get("attrs", {}).get("func_name", "__nop")
        inputs = [self._array(self._rows[n] + index) for n, index, *_ in node["inputs"]]
        outputs = [self._array(entry) for entry in range(self._rows[number], self._rows[number + 1])]
        if name == "__copy":
            return lambda number: self._copied(inputs[0], outputs[0], number)
        if name == "__nop":
            return lambda number: 0.0
        function, arrays = self.board.function(name), [*inputs, *outputs]
        found = [(a.shape, a.dtype) for a in arrays]
        wanted = [(about.shape, about.dtype) for about in function.arguments]
        if found != wanted:
            raise TVMError(f"the arguments of the function {name} on the board do not fit the graph: {wanted}, {found}")
        offsets = [a.offset for a in arrays]
        return lambda number: self.board.call(function, offsets, number)

    def _copied(self, source: BoardArray, target: BoardArray, number: int) -> float:
        if number and source.nbytes:
            self.board.write(target.offset, self.board.read(source.offset, source.nbytes))
        return 0.0

    def _run_times(self, number: int) -> float:
        return sum(step(1) for _ in range(number) for step in self._steps)

    def load_params(self, data: bytes) -> None:
        """Set the parameters.

        Parameters
        ----------
        data : bytes
            The return value of ``relay.save_param_dict``.
        """
        for name, value in load_param_dict(data).items():
            if name in self._inputs:
                self._inputs[name].copyfrom(value)

    def set_input_zero_copy(self, *args: Any) -> None:
        """Raise an error, because the board cannot read the memory of this machine.

        Parameters
        ----------
        *args
            Ignored.
        """
        raise TVMError("a board cannot use arrays of this machine without a copy; use set_input and get_output")

    set_output_zero_copy = share_arrays = set_input_zero_copy

    # Functions of the debug executor ----------------------------------------------------------------------------------

    def execute_node(self, number: int) -> None:
        """Run a node.

        Parameters
        ----------
        number : int
            The index of the node.
        """
        self._steps[number](1)

    def get_node_output(self, number: int, index: int) -> BoardArray:
        """Return an output of a node.

        Parameters
        ----------
        number, index : int
            The index of the node, and the index of its output.
        """
        return self._array(self._rows[number] + index)

    def time_node(self, number: int, runs: int, repeat: int) -> bytes:
        """Return the mean times of a node in seconds, as float64.

        Parameters
        ----------
        number : int
            The index of the node.
        runs : int
            The number of runs that are averaged.
        repeat : int
            The number of results.
        """
        return array.array("d", [self._steps[number](runs) / runs for _ in range(repeat)]).tobytes()

    def profile_run(self) -> bytes:
        """Run the model, and return the time of each node in seconds, as float64."""
        return array.array("d", [step(1) for step in self._steps]).tobytes()
