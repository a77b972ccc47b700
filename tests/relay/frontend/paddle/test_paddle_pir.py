"""Programs of PaddlePaddle 3's intermediate representation (``.json``): the cases and networks of the older programs as
PaddlePaddle itself translates and saves them, against what it made of them."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest
from mutants import MUTATIONS, damaged
from paddle_networks import feeds, networks, weights
from paddle_writer import parameters

from tests.relay.frontend.paddle.operator_cases import check_pir, compare, pir, run
from tvm.error import OpNotImplemented, TVMError
from tvm.relay.frontend import from_paddle
from tvm.relay.frontend.paddlepaddle.pir import read_program
from tvm.relay.frontend.paddlepaddle.pir_names import NAMES
from tvm.relay.frontend.paddlepaddle.table import CONVERTERS

COMPILED = 9
F32 = {"#": "0.t_dtensor", "D": [{"#": "0.t_f32"}, [2, 3], "NCHW", [], 0]}
I64 = {"#": "0.t_dtensor", "D": [{"#": "0.t_i64"}, [1], "NCHW", [], 0]}
BOOL = {"#": "0.t_dtensor", "D": [{"#": "0.t_bool"}, [1], "NCHW", [], 0]}


def test_a_sample_of_cases_gives_what_paddle_gave(rng):
    count = len(pir()) if os.environ.get("TVM_CONFORMANCE_CASES") else COMPILED
    for name in rng.choice(sorted(pir()), count, replace=False):
        check_pir(name)


def test_every_older_name_is_that_of_a_converter():
    assert not {row.kind for row in NAMES.values()} - set(CONVERTERS.names())


def _network(folder: Path, name: str) -> tuple[Path, object]:
    net = networks("pir_networks.npz")[name]
    (folder / "inference.json").write_bytes(net.program)
    (folder / "inference.pdiparams").write_bytes(parameters(weights(read_program(net.program, name)[0])))
    return folder, net


@pytest.mark.slow("imports, compiles and runs a whole network")
def test_a_network_gives_what_paddle_gave(tmp_path, rng):
    names = sorted(networks("pir_networks.npz"))
    for name in names if os.environ.get("TVM_CONFORMANCE_CASES") else [str(rng.choice(names))]:
        folder, net = _network(tmp_path, name)
        module, params = from_paddle(folder, {"x": net.shape})
        assert not params
        compare(run(module, feeds(net.dtype, net.shape)), net.expected, 2e-4)


def test_networks_are_imported_with_open_batches(tmp_path):
    for name in sorted(networks("pir_networks.npz")):
        module, _ = from_paddle(_network(tmp_path, name)[0])
        assert not hasattr(module["main"].params[0].type_annotation.shape[0], "value")


def test_tvmc_knows_such_a_program_and_its_parameters(tmp_path):
    from tvm.driver.tvmc.legacy_frontends import PaddleFrontend

    folder, net = _network(tmp_path, "sentiment")
    path = str(folder / "inference.json")
    assert PaddleFrontend.recognizes(net.program[:256], path) and PaddleFrontend.reads_folder(str(folder))
    assert not PaddleFrontend.recognizes(b'{"nodes": []}', path)
    assert list(PaddleFrontend().companions(path)) == ["inference.pdiparams"]


# -- programs written by hand -----------------------------------------------------------------------------------------


def _op(kind: str, inputs=(), outputs=(), attrs=(), **more) -> dict:
    return {
        "#": kind,
        "A": [{"N": n, "AT": {"#": f"0.a_{t}", "D": v}} for n, t, v in attrs],
        "I": [{"%": i} for i in inputs],
        "O": [{"%": i, "TT": t} for i, t in outputs],
        **more,
    }


def _program(*operators) -> bytes:
    block = {"#": "block_0", "args": [], "ops": list(operators)}
    found = {"base_code": {"magic": "pir", "version": 4}, "program": {"regions": [{"#": "r", "blocks": [block]}]}}
    return json.dumps(found).encode()


def _region(args, *operators) -> dict:
    return {"#": "region", "blocks": [{"#": "inner", "args": args, "ops": list(operators)}]}


def _write(folder: Path, data: bytes) -> Path:
    (folder / "inference.json").write_bytes(data)
    return folder / "inference.json"


def _input(number: int, name: str, kind) -> dict:
    return _op("1.data", (), [(number, kind)], [("name", "str", name)])


def test_a_branch_and_a_loop_that_data_decide(tmp_path):
    """x doubled if the flag is set, otherwise turned round; then a sum of as many steps as n says."""
    branch = _op(
        "1.if",
        [2],
        [(10, F32)],
        regions=[
            _region([], _op("1.add", [1, 1], [(20, F32)]), _op("2.yield", [20])),
            _region([], _op("1.subtract", [3, 1], [(21, F32)]), _op("2.yield", [21])),
        ],
    )
    one = [("value", "array", [{"#": "0.a_i64", "D": 1}])]
    argument = [{"#": -1, "TT": I64}, {"#": -2, "TT": F32}]
    loop = _op(
        "1.while",
        [12, 11, 10],
        [(13, I64), (14, F32)],
        regions=[
            _region(
                argument,
                _op("1.add", [-2, 3], [(30, F32)]),
                _op("1.add", [-1, 4], [(31, I64)]),
                _op("1.less_than", [31, 5], [(32, BOOL)]),
                _op("2.yield", [32, 31, 30]),
            )
        ],
    )
    data = _program(
        _input(1, "x", F32),
        _input(2, "flag", BOOL),
        _input(3, "y", F32),
        _input(5, "n", I64),
        _op("1.full_int_array", [], [(4, I64)], [*one, ("dtype", "dtype", "int64")]),
        _op("1.subtract", [4, 4], [(11, I64)]),
        _op("1.less_than", [11, 5], [(12, BOOL)]),
        branch,
        loop,
        _op("1.fetch", [14], [(15, F32)], [("name", "str", "out"), ("col", "i32", 0)]),
    )
    module, _ = from_paddle(_write(tmp_path, data.replace(b'"0.a_dtype"', b'"1.a_dtype"')))
    x, y = np.arange(6, dtype="float32").reshape(2, 3), np.full((2, 3), 10, "float32")
    for flag, n in ((True, 3), (False, 0)):
        (got,) = run(module, {"x": x, "y": y, "flag": np.array([flag]), "n": np.array([n])})
        np.testing.assert_array_equal(got, (2 * x if flag else y - x) + n * y)


def test_unsupported_operators_are_named_together(tmp_path):
    data = _program(
        _input(1, "x", F32),
        _op("1.gaussian_noise", [1], [(2, F32)]),
        _op("1.frob", [2], [(3, F32)]),
        _op("1.fetch", [3], [(4, F32)]),
    )
    with pytest.raises(OpNotImplemented, match="frob") as problem:
        from_paddle(_write(tmp_path, data))
    assert "gaussian_noise" in str(problem.value)


@pytest.mark.parametrize(("data", "words"), [
    (b"{}", "is corrupt, or it is not a PaddlePaddle 3 program"),
    (b"\xff\xfe{", "is corrupt, or it is not a PaddlePaddle 3 program"),
    (b"[" * 100_000, "is corrupt, or it is not a PaddlePaddle 3 program"),
    (b'{"base_code": {"magic": "pir", "version": 99}}', "version 99 of 'pir' is not supported"),
    (_program(_op("1.relu", [7], [(8, F32)])), "the value 7 is used before its definition"),
    (_program(_op("1.where", [0, 0, 0, 0], [(8, F32)])), "has 4 operands, but only 3 are supported"),
    (_program(), "the program has no operators"),
    (_program(_op("1.pylayer", [], [(8, F32)], regions=[_region([])])), "pylayer with nested blocks is not supported"),
])  # fmt: skip
def test_what_is_no_program_is_refused_in_words(tmp_path, data, words):
    with pytest.raises(TVMError, match=words):
        from_paddle(_write(tmp_path, data))


def test_a_mutated_program_is_refused_or_imported(tmp_path, rng):
    """Bytes of a program changed, left out or doubled: an error in words, or a module."""
    names = sorted(pir())
    for _ in range(MUTATIONS):
        data = json.dumps(pir()[names[int(rng.integers(len(names)))]], separators=(",", ":")).encode()
        try:
            from_paddle(_write(tmp_path, damaged(data, rng)))
        except TVMError:
            pass
