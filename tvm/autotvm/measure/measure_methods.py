"""Builders and runners for this machine and for devices of an RPC tracker."""

from __future__ import annotations

import os
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from ...error import TVMError, not_defined
from ...ir.transform import PassContext
from ...runtime.measure.files import difference
from ...target import Target
from ...tuning.loaded import measure_loaded
from ...tuning.measure import Built, Failed, LibraryFolder, build_all, run_built
from ...tuning.reference import reference_outputs
from ...tuning.remote import RemoteDevices, Timing, request_remote
from ...tuning.workers import Workers, shared_pool
from .measure import Builder, BuildResult, MeasureErrorNo, MeasureInput, MeasureResult, Runner


def _failed(error_no: MeasureErrorNo, error: BaseException | str, seconds: float = 0.0) -> MeasureResult:
    error = error if isinstance(error, BaseException) else RuntimeError(error)
    return MeasureResult((error,), error_no, seconds, time.time())


def _built(made: Built | Failed) -> BuildResult | MeasureResult:
    """Convert the output of a build to the input of a runner."""
    if isinstance(made, Failed):
        return _failed(made.error_no, made.error, made.seconds)
    is_file = isinstance(made.code, str)
    result = BuildResult(made.code if is_file else None, made.info, None, made.seconds)
    result.code = None if is_file else made.code
    return result


class LocalBuilder(Builder):
    """A builder that uses worker processes of this machine.

    ``build_func`` is "default" (objects in memory), or a function ``(output, files, **kwargs)`` that links a library,
    as in ``export_library``. ``build_kwargs`` are options of ``export_library``; its entry ``build_option`` is the
    configuration of the pass context. ``do_fork`` is accepted but ignored; the workers are never forks of this process.
    """

    def __init__(
        self,
        timeout: float = 10,
        n_parallel: int | None = None,
        build_kwargs: dict[str, Any] | None = None,
        build_func: str | Callable = "default",
        do_fork: bool = False,
        runtime: Any = None,
    ):
        super().__init__(timeout, n_parallel)
        if isinstance(build_func, str) and build_func != "default":
            raise ValueError(f"LocalBuilder: unknown build_func '{build_func}'; use 'default' or a function")
        self.build_func = build_func
        self.user_build_kwargs = dict(build_kwargs or {})
        self.build_option = self.user_build_kwargs.pop("build_option", None) or {}
        self.runtime = runtime
        self._library = LibraryFolder(None if isinstance(build_func, str) else build_func, self.user_build_kwargs)

    def build(self, measure_inputs: Sequence[MeasureInput]) -> list[Any]:
        candidates: list[Any] = [(inp.instantiate, inp.target) for inp in measure_inputs]
        links = self.build_func != "default" or bool(self.build_kwargs.get("link"))
        ctx = PassContext.current()
        config = {**ctx.config, **self.build_option}
        with PassContext(ctx.opt_level, ctx.required_pass, ctx.disabled_pass, ctx.instruments, config):
            return [_built(one) for one in build_all(candidates, self.timeout, self._workers(), self._library, links)]

    def _workers(self) -> Workers:
        return shared_pool(max(self.n_parallel, 2))


def _result_of_build(built: Any) -> MeasureResult | None:
    """Return the error of a failed build, or None for a successful one."""
    if isinstance(built, MeasureResult):
        return built
    return None if built.error is None else _failed(built.error_no or MeasureErrorNo.COMPILE_HOST, built.error)


def _code(built: BuildResult) -> Built:
    return Built(built.code or built.filename, built.arg_info or (), built.time_cost)


class _Measuring(Runner):
    """The common part of the runners: the best result of each task, and the comparison of outputs with the plain
    schedule."""

    verify = False

    def __init__(self, timeout: float, n_parallel: int | None):
        super().__init__(timeout, n_parallel)
        self._best: dict[Any, float] = {}
        self._reference: dict[Any, bytes] = {}
        self._lock = threading.Lock()

    def set_task(self, task: Any) -> None:
        super().set_task(task)
        self._best.clear()
        self._reference.clear()

    def _run_code(self, target: Target, built: BuildResult, best: float | None) -> Any:
        """Return the answer of a worker and the arguments after a run, or the error."""
        raise not_defined(self, "_run_code")

    @property
    def ref_input(self) -> list[Any] | None:
        """The arrays to measure with; only ``LocalRunner`` supports them."""
        return None

    @ref_input.setter
    def ref_input(self, arrays: Sequence[Any] | None) -> None:
        if arrays is not None:
            raise TVMError(
                f"{type(self).__name__}: ref_input is only supported by LocalRunner; other runners measure with "
                "arrays that are filled according to their types"
            )

    def _with_arguments(self, built: BuildResult) -> BuildResult:
        """Return the code with the arguments of its runs."""
        return built

    def _measure(self, inp: MeasureInput, built: Any) -> MeasureResult:
        failed = _result_of_build(built)
        if failed is not None:
            return failed
        built = self._with_arguments(built)
        start = time.monotonic() - built.time_cost
        key = inp.task.workload
        best = self._best.get(key)
        assert inp.target is not None
        answer = self._run_code(inp.target, built, best)
        if isinstance(answer, Failed):
            return _failed(answer.error_no, answer.error, answer.seconds)
        if self.verify:
            wrong = self._difference(inp, built, answer[1])
            if wrong:
                return _failed(MeasureErrorNo.WRONG_ANSWER, wrong, time.monotonic() - start)
        if inp.made_on is None and "device" in answer[0]:
            inp.made_on = {"device": answer[0]["device"]}
        costs = tuple(answer[0]["costs"])
        mean = sum(costs) / len(costs)
        if best is None or mean < best:
            self._best[key] = mean
        return MeasureResult(costs, MeasureErrorNo.NO_ERROR, time.monotonic() - start, time.time())

    def _difference(self, inp: MeasureInput, built: BuildResult, got: bytes) -> str | None:
        """Return how the arguments after a run differ from those of the plain schedule; None if they do not."""
        key = inp.task.workload
        with self._lock:  # The workers support one thread at a time
            if key not in self._reference:
                self._reference[key] = reference_outputs(shared_pool(2), *inp.instantiate(), built.arg_info or ())
        return difference([(shape, dtype) for shape, dtype, *_ in built.arg_info or ()], got, self._reference[key])


class LocalRunner(_Measuring):
    """A runner that measures in a worker process of this machine, one candidate at a time and without parallel builds.

    A measurement is one warm-up run, followed by ``repeat`` measurements of the mean of ``number`` runs, or more runs
    if they take less than ``min_repeat_ms``. A candidate whose first runs take more than ``slow_factor`` times the best
    time of its task is not measured further. ``verify`` compares the outputs with those of the plain schedule on the
    CPU.

    On a GPU the timers of the device are used. If a candidate leaves the device in an unusable state, only its worker
    process ends.

    ``module_loader`` measures on another device in place of a worker process. It is a function of a dictionary, whose
    entry ``timeout`` is the time limit in seconds, and of a ``BuildResult``; it returns a context manager, whose value
    is a session and a library of the device.
    """

    def __init__(
        self,
        timeout: float = 10,
        number: int = 4,
        repeat: int = 3,
        min_repeat_ms: int = 0,
        cooldown_interval: float = 0.1,
        enable_cpu_cache_flush: bool = False,
        module_loader: Any = None,
        *,
        slow_factor: float = 3.0,
        verify: bool = False,
    ):
        super().__init__(timeout, 1)
        if module_loader is not None and enable_cpu_cache_flush:
            raise TVMError("LocalRunner: enable_cpu_cache_flush is not supported together with module_loader")
        self.module_loader = module_loader
        self.number, self.repeat, self.min_repeat_ms = number, repeat, min_repeat_ms
        self.cooldown_interval = cooldown_interval
        self.enable_cpu_cache_flush = enable_cpu_cache_flush
        self.slow_factor = slow_factor
        self.verify = verify
        self.ref_input = None

    @property
    def ref_input(self) -> list[Any] | None:
        """The arrays that are the arguments of the candidates; None means random values chosen by type. Set them if the
        values determine the amount of computation, as the indices of a sparse matrix do."""
        return self._ref_input

    @ref_input.setter
    def ref_input(self, arrays: Sequence[Any] | None) -> None:
        import numpy as np

        self._ref_input = None if arrays is None else [a.numpy() if hasattr(a, "numpy") else a for a in arrays]
        self._ref_files, self._ref_folder = [], None
        if self._ref_input is None:
            return
        # Workers read files; the folder is deleted with the runner or when other arrays are set.
        self._ref_folder = tempfile.TemporaryDirectory(prefix="tvm_ref_input_")
        for number, array in enumerate(self._ref_input):
            self._ref_files.append(os.path.join(self._ref_folder.name, f"{number}.npy"))
            np.save(self._ref_files[-1], array, allow_pickle=False)

    def _with_arguments(self, built: BuildResult) -> BuildResult:
        if self._ref_input is None:
            return built
        info = list(built.arg_info or ())
        if len(info) != len(self._ref_input):
            raise TVMError(
                f"ref_input: got {len(self._ref_input)} arrays, but the template has {len(info)} arguments; pass one "
                "array for each argument, including outputs"
            )
        for number, (array, (shape, dtype, *_)) in enumerate(zip(self._ref_input, info)):
            if (tuple(array.shape), str(array.dtype)) != (tuple(shape), dtype):
                raise TVMError(
                    f"ref_input: array {number} is {array.dtype} of shape {tuple(array.shape)}, but the "
                    f"template's argument is {dtype} of shape {tuple(shape)}"
                )
        described = tuple([shape, dtype, file] for (shape, dtype, *_), file in zip(info, self._ref_files))
        described_build = built._replace(arg_info=described)
        described_build.code = built.code
        return described_build

    def run(self, measure_inputs: Sequence[MeasureInput], build_results: Sequence[Any]) -> list[MeasureResult]:
        return [self._measure(inp, built) for inp, built in zip(measure_inputs, build_results)]

    def _run_code(self, target: Target, built: BuildResult, best: float | None) -> Any:
        if self.module_loader is not None:
            timing = {"number": self.number, "repeat": self.repeat, "min_repeat_ms": self.min_repeat_ms}
            return measure_loaded(self.module_loader, built, self.timeout, timing)
        options = {
            "number": self.number,
            "repeat": self.repeat,
            "min_repeat_ms": self.min_repeat_ms,
            "cooldown": self.cooldown_interval,
            "best": best,
            "slow_factor": self.slow_factor,
            "flush": self.enable_cpu_cache_flush,
            "outputs": self.verify,
        }
        return run_built(self._workers(target), target, _code(built), self.timeout, options)

    def _workers(self, target: Target) -> Workers:
        return shared_pool(2)


class RPCRunner(_Measuring):
    """A runner that measures on devices with the key ``key`` of an RPC tracker, ``n_parallel`` at once. If a device is
    lost, its candidate is measured on another one. A candidate that crashes or exceeds its time limit ends only its own
    session."""

    def __init__(
        self,
        key: str,
        host: str,
        port: int,
        priority: int = 1,
        timeout: float = 10,
        n_parallel: int | None = None,
        number: int = 4,
        repeat: int = 3,
        min_repeat_ms: int = 0,
        cooldown_interval: float = 0.1,
        enable_cpu_cache_flush: bool = False,
        module_loader: Any = None,
    ):
        super().__init__(timeout, n_parallel)
        if module_loader is not None:
            raise TVMError("RPCRunner: a custom module_loader is not supported")
        self.key, self.host, self.port, self.priority = key, host, port, priority
        self.number, self.repeat, self.min_repeat_ms = number, repeat, min_repeat_ms
        self.cooldown_interval, self.enable_cpu_cache_flush = cooldown_interval, enable_cpu_cache_flush

    def _devices(self) -> RemoteDevices:
        return RemoteDevices(self.key, self.host, self.port, self.priority, self.timeout)

    def set_task(self, task: Any) -> None:
        super().set_task(task)
        self._devices().check()

    def get_build_kwargs(self) -> dict[str, Any]:
        """Return the build options of the device: kernels of a GPU are sent as a library."""
        return {"link": self.task is not None and not self.task.target.features.is_cpu}

    def run(self, measure_inputs: Sequence[MeasureInput], build_results: Sequence[Any]) -> list[MeasureResult]:
        return self._devices().map(self._measure, measure_inputs, build_results, n_parallel=self.n_parallel)

    def _run_code(self, target: Target, built: BuildResult, best: float | None) -> Any:
        timing = Timing(
            self.number,
            self.repeat,
            self.min_repeat_ms,
            self.cooldown_interval,
            self.enable_cpu_cache_flush,
            self.verify,
            best,
        )
        return self._devices().measure(target, _code(built), timing)


__all__ = ["LocalBuilder", "LocalRunner", "RPCRunner", "request_remote"]
