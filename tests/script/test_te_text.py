"""Text of tensors and operations."""

from tvm import te


def test_tensor_and_placeholder():
    n = te.var("n")
    a = te.placeholder((n, 8), name="A")
    assert str(a) == "Tensor(shape=[n, 8], op.name=A)" and str(a.op) == "placeholder(A)"


def test_compute():
    a = te.placeholder((4,), name="A")
    b = te.compute((4,), lambda i: a[i] * 2.0, name="B", tag="scale")
    assert str(b.op) == (
        'compute(B, body=[A[i] * T.float32(2)], axis=[T.iter_var(i, T.Range(0, 4), "DataPar", "")], '
        "reduce_axis=[], tag=scale, attrs={})"
    )


def test_element_of_an_operation_with_two_outputs():
    a = te.placeholder((4,), name="A")
    first, second = te.compute((4,), lambda i: (a[i], a[i] + 1.0), name="B")
    assert (str(first(1)), str(second(2))) == ("B.v0[1]", "B.v1[2]")
    assert str(second) == "Tensor(shape=[4], op.name=B)"
