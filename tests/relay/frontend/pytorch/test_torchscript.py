"""TorchScript: names, options, tensors changed in place, branches and loops, refusals."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from tests.relay.frontend.pytorch.support import array, check, exported, names_of, run, same, traced
from tvm import relay
from tvm.error import OpNotImplemented, TVMError


class Case(torch.nn.Module):
    """A function as a module."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *inputs):
        return self.function(*inputs)


def _slices(x):
    y = x.clone()
    y[:, 1] = 3.0
    y[1:, ::2] += 1
    return y


def _view_before(x):
    y = x.clone()
    part = y.view(-1)[2:5]
    y.mul_(2)
    part.add_(1)
    return y, part


def _copy_of_a_turned_view(x):
    y = x * 1
    z = y.t().contiguous()
    z.add_(1)
    return y, z


def _parts(x):
    y = x.clone()
    first, second = y.chunk(2, 1)
    second.zero_()
    return y, first


def _shape_in_place(x):
    y = x.clone()
    rows, flat, column = y[1:], y.view(-1), y[:, 1]
    y.transpose_(0, 1).unsqueeze_(0)
    column.unsqueeze_(1)
    rows.mul_(2)
    flat[0] = 5.0
    column.sub_(3)
    y[0, 0] += 1
    return y, rows, flat, column


def _scattered_views(x):
    y = x[:, :3].clone()
    y.diagonal(1).fill_(0)
    y.unfold(0, 2, 2).mul_(2)
    y.as_strided((2,), (5,), 1).add_(1)
    return y


@pytest.mark.parametrize(
    "function", [_slices, _view_before, _copy_of_a_turned_view, _parts, _shape_in_place, _scattered_views]
)
@pytest.mark.parametrize("way", ["trace", "export"])
def test_a_change_in_place_is_seen_by_every_view(function, way):
    check(Case(function), [torch.randn(3, 4)], way, level=0)


def test_parameters_have_the_names_of_the_state_dict():
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2)).eval()
    script = torch.jit.trace(model, torch.randn(1, 3))
    _, params = relay.frontend.from_pytorch(script, [("x", (1, 3))])
    assert set(params) == set(model.state_dict())
    _, params = relay.frontend.from_pytorch(script, [("x", (1, 3))], use_parser_friendly_name=True)
    assert set(params) == {name.replace(".", "_") for name in model.state_dict()}


def test_nodes_are_named_by_kind_and_number_or_by_submodule():
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU()).eval()
    script = torch.jit.trace(model, torch.randn(1, 3))
    mod, _ = relay.frontend.from_pytorch(script, [("x", (1, 3))])
    assert mod["main"].body.span.source_name.name == "aten::relu_0"
    mod, _ = relay.frontend.from_pytorch(script, [("x", (1, 3))], preserve_pytorch_scopes=True)
    assert mod["main"].body.span.source_name.name.endswith("/aten::relu_0")


def test_the_graph_is_written_with_names_of_nodes(tmp_path):
    script = torch.jit.trace(torch.nn.ReLU(), torch.randn(1, 3))
    relay.frontend.from_pytorch(script, [("x", (1, 3))], export_renamed_c_graph_path=str(tmp_path))
    (file,) = tmp_path.iterdir()
    assert "aten::relu_0" in file.read_text()


def test_a_converter_of_the_caller_comes_first():
    script = torch.jit.trace(torch.nn.ReLU(), torch.randn(1, 3))
    own = {"aten::relu": lambda inputs, types: relay.negative(inputs[0])}
    mod, params = relay.frontend.from_pytorch(script, [("x", (1, 3))], custom_convert_map=own)
    x = torch.randn(1, 3)
    same(run(mod, params, {"x": array(x)}), [-x])


@pytest.mark.parametrize("way", [traced, exported])
def test_a_converter_of_the_caller_is_given_all_arguments_and_their_types(way):
    found = []

    def own(inputs, types):
        found.append((inputs[1:], types))
        return relay.abs(inputs[0])

    x = torch.randn(2, 3).double()
    mod, params = way(
        Case(lambda x: torch.ops.aten.softplus(x) + x.sum([0, 1])), [x], custom_convert_map={"aten::softplus": own}
    )
    same(run(mod, params, {names_of(mod, params)[0]: array(x)}), [x.abs() + x.sum()])
    assert found == [([1, 20], ["float64", "int32", "int32"])]


def test_all_operators_without_a_converter_are_named_at_once():
    values = torch.linalg.svdvals
    script = torch.jit.trace(lambda x: torch.linalg.lu_factor(x)[0] + values(x) + values(x).sum(), torch.randn(3, 3))
    with pytest.raises(OpNotImplemented) as found:
        relay.frontend.from_pytorch(script, [("x", (3, 3))])
    assert "linalg_svdvals: 2 nodes, first 'aten::linalg_svdvals_0'" in str(found.value)
    assert "linalg_lu_factor: 1 node" in str(found.value)


@pytest.mark.parametrize("function, size", [(torch.linalg.det, 65), (torch.inverse, 70)])
def test_matrices_with_too_many_rows_are_refused_in_words(function, size):
    with pytest.raises(TVMError, match=f"{size} x {size} matrices of float32 .* at most 64 rows"):
        traced(Case(function), [torch.eye(size)])


def test_a_wrong_number_of_inputs_and_a_model_that_is_no_script_are_refused():
    script = torch.jit.trace(lambda x, y: x + y, (torch.randn(2), torch.randn(2)))
    with pytest.raises(AssertionError, match="the model has 2 inputs"):
        relay.frontend.from_pytorch(script, [("x", (2,))])
    with pytest.raises(TypeError, match=r"torch\.jit\.trace"):
        relay.frontend.from_pytorch(torch.nn.ReLU(), [("x", (2,))])


def test_numbers_lists_and_loops_of_a_script_are_computed_while_importing():
    @torch.jit.script
    def function(x, times: int):
        parts = []
        for i in range(times):
            if i % 2 == 0:
                parts.append(x * i)
            else:
                parts.append(x - float(i))
        return torch.cat(parts, 1)

    mod, params = relay.frontend.from_pytorch(function, [("x", (2, 3)), ("times", 4)])
    x = torch.randn(2, 3)
    same(run(mod, params, {"x": array(x)}, level=0), [function(x, 4)])


def test_a_branch_that_data_decides_runs_on_the_virtual_machine():
    @torch.jit.script
    def function(x):
        if bool(x.sum() > 0):
            y = x * 2
        else:
            y = x - 1
        return y

    mod, params = relay.frontend.from_pytorch(function, [("x", (3,))])
    for x in (torch.tensor([1.0, 2.0, 3.0]), torch.tensor([-1.0, -2.0, 1.0])):
        same(run(mod, params, {"x": array(x)}, "vm"), [function(x)])


def test_a_loop_whose_steps_data_decides_runs_on_the_virtual_machine():
    @torch.jit.script
    def function(x):
        steps = 0
        while bool(x.sum() < 100.0):
            x = x * 2
            steps += 1
        return x, torch.tensor(steps)

    mod, params = relay.frontend.from_pytorch(function, [("x", (3,))])
    for start in (1.0, 40.0):
        x = torch.full((3,), start)
        same(run(mod, params, {"x": array(x)}, "vm"), list(function(x)))


def test_the_number_of_parts_that_a_model_takes_is_that_of_one_list():
    def function(x, y):
        first, second = x.unbind(0)
        return first + second + torch.unbind_copy(y)[0]

    script = torch.jit.script(function)
    with pytest.raises(TVMError, match="unbind_copy"):
        relay.frontend.from_pytorch(script, [("x", (relay.Any(), 4)), ("y", (relay.Any(), 4))])
    mod, params = relay.frontend.from_pytorch(script, [("x", (relay.Any(), 4)), ("y", (3, 4))])
    x, y = torch.randn(2, 4), torch.randn(3, 4)
    same(run(mod, params, {"x": array(x), "y": array(y)}, "vm"), [function(x, y)])


def test_a_size_may_be_open():
    model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU()).eval()
    script = torch.jit.trace(model, torch.randn(2, 4))
    mod, params = relay.frontend.from_pytorch(script, [("x", (relay.Any(), 4))])
    for rows in (1, 5):
        x = torch.randn(rows, 4)
        same(run(mod, params, {"x": array(x)}, "vm"), [model(x)])


def test_errors_begin_with_the_node():
    script = torch.jit.trace(lambda x: x.bernoulli(), torch.rand(2, 3), check_trace=False)
    with pytest.raises(TVMError, match=r"aten::bernoulli node 'aten::bernoulli_0': bernoulli draws random numbers"):
        relay.frontend.from_pytorch(script, [("x", (2, 3))])


def test_state_in_an_attribute_is_refused_by_its_name():
    class Counter(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.total = torch.zeros(2)

        def forward(self, x):
            self.total = self.total + x
            return self.total

    with pytest.raises(TVMError, match="stores state in its attribute 'total'"):
        relay.frontend.from_pytorch(torch.jit.script(Counter()), [("x", (2,))])


def test_half_precision_is_computed_as_pytorch_computes_it():
    layer = torch.nn.Linear(5, 3).to(torch.bfloat16).eval()
    script = torch.jit.trace(layer, torch.randn(2, 5).to(torch.bfloat16))
    mod, params = relay.frontend.from_pytorch(script, [("x", ((2, 5), "bfloat16"))])
    assert mod["main"].body.checked_type.dtype == "bfloat16"
    assert {str(v.dtype) for v in params.values()} == {"bfloat16"}
    assert np.isfinite(params["weight"].numpy().astype("float32")).all()


def test_a_branch_that_may_give_nothing_gives_as_much_as_the_data_has():
    @torch.jit.script
    def order(x):
        if x.numel() == 0:
            return torch.empty((0,), dtype=torch.int64)
        return torch.argsort(x)

    @torch.jit.script
    def best(x):
        kept = x[x > 0.3]
        places = order(kept)
        return places[:2], kept[places[:2]], places

    mod, params = relay.frontend.from_pytorch(best, [("x", (9,))])
    for x in (torch.linspace(0, 1, 9), torch.zeros(9)):
        same(run(mod, params, {"x": array(x)}, "vm"), best(x))


def test_the_last_axes_of_as_many_rows_as_data_has_are_joined():
    @torch.jit.script
    def joined(x):
        rows = x[x[:, 0, 0] > 0]
        return rows.flatten(1), rows.view(rows.size(0), -1)[:, 1:], rows.flatten(0, 1)

    x = torch.randn(7, 2, 3)
    x[0, 0, 0] = 1.0
    mod, params = relay.frontend.from_pytorch(joined, [("x", (7, 2, 3))])
    same(run(mod, params, {"x": array(x)}, "vm"), joined(x))


def test_parts_may_have_sizes_that_data_decides():
    @torch.jit.script
    def parts(x):
        rows = x[x[:, 0] > 0]
        whole = rows.split([rows.size(0)])
        low, high, rest = x.split([rows.size(0), 2, x.size(0) - rows.size(0) - 2])
        return whole[0], low * 2, high, rest, torch.cat([rows, x]).split([x.size(0), rows.size(0)])[1]

    mod, params = relay.frontend.from_pytorch(parts, [("x", (7, 2))])
    for positive in (0, 1, 5):
        x = -torch.rand(7, 2) - 0.1
        x[1 : positive + 1] *= -1
        same(run(mod, params, {"x": array(x)}, "vm"), parts(x))


@pytest.mark.slow("compiles and runs whole PyTorch models")
@pytest.mark.parametrize("mode", ["nearest", "bilinear", "bicubic"])
def test_an_image_is_resized_to_sizes_that_data_decides(mode):
    @torch.jit.script
    def resized(x, mode: str):
        height = int(x.abs().sum() * 0 + 5)
        small = torch.nn.functional.interpolate(x, [height, 3], mode=mode)
        part = x[:, :, : height - 1]
        return small, torch.nn.functional.interpolate(part, scale_factor=[1.5, 2.5], mode=mode)

    x = torch.randn(1, 2, 7, 6)
    mod, params = relay.frontend.from_pytorch(resized, [("x", (1, 2, 7, 6)), ("mode", mode)])
    same(run(mod, params, {"x": array(x)}, "vm"), resized(x, mode))


def test_a_function_of_autograd_is_the_operators_it_was_traced_with():
    class Swish(torch.autograd.Function):
        @staticmethod
        def forward(context, x, scale):
            context.save_for_backward(x)
            y = x.clone()
            y[:, 1:] += 1
            return y * torch.sigmoid(x) * scale, x - scale

        @staticmethod
        def backward(context, *gradients):
            return gradients[0], None

    def twice(x):
        a, b = Swish.apply(x, 2.5)
        c, d = Swish.apply(a * b, 0.5)
        return c, a + d

    check(Case(twice), [torch.randn(2, 3)])


def test_a_function_of_autograd_names_its_operators_without_a_converter():
    class Unknown(torch.autograd.Function):
        @staticmethod
        def forward(context, x):
            return torch.special.bessel_j0(x)

    script = torch.jit.trace(Case(Unknown.apply), torch.randn(3))
    with pytest.raises(OpNotImplemented, match="bessel_j0: 1 node"):
        relay.frontend.from_pytorch(script, [("x", (3,))])


def test_complex_results_and_changes_of_complex_parts_in_place_are_refused():
    def changed(x):
        z = torch.view_as_complex(x.reshape(3, 1, 2))
        x.mul_(2)
        return z.real

    x = torch.randn(3, 2)
    for function, words in ((torch.view_as_complex, "to a real tensor by torch.view_as_real"),
                            (changed, "in-place changes of"),
                            (lambda x: torch.view_as_complex(x).add_(1).real, "in-place changes of"),
                            (lambda x: torch.view_as_complex(x).exp().real, "exp of a complex tensor")):  # fmt: skip
        script = torch.jit.trace(function, x.clone(), check_trace=False)
        with pytest.raises(TVMError, match=words):
            relay.frontend.from_pytorch(script, [("x", (3, 2))])


def test_operators_of_branches_that_only_training_takes_need_no_converter():
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(3, 3)

        def forward(self, x, target: torch.Tensor | None = None):
            x = self.layer(x)
            if self.training and target is not None or not not self.layer.training:
                return torch.linalg.svdvals(x)
            if target is not None:
                return torch.linalg.inv(x)
            return torch.relu(x)

    class Caller(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = Model()

        def forward(self, x):
            return self.model(x)

    model = Caller().eval()
    x = torch.randn(3, 3)
    mod, params = relay.frontend.from_pytorch(torch.jit.script(model), [("x", (3, 3))])
    same(run(mod, params, {"x": array(x)}), [model(x)])
    with pytest.raises(OpNotImplemented, match="linalg_svdvals"):
        relay.frontend.from_pytorch(torch.jit.script(model.train()), [("x", (3, 3))])


@pytest.mark.parametrize("way", ["trace", "export"])
def test_random_numbers_that_nothing_reads_are_not_drawn(way):
    class Layer(torch.nn.Module):
        def forward(self, x):
            left_out = torch.rand([]) < 0.5 if self.training else torch.rand([])
            return x if self.training and left_out else x + 1

    check(Layer().eval(), [torch.randn(2, 3)], way)


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("padded", [False, True])
def test_the_fast_path_of_an_encoder_layer(norm_first, activation, padded):
    torch.manual_seed(0)
    model = torch.nn.TransformerEncoderLayer(8, 2, 12, batch_first=True, norm_first=norm_first, activation=activation)
    hidden = torch.tensor([[False] * 5, [False, True, False, False, True]])
    module = Case(lambda x: layer(x, src_key_padding_mask=hidden) if padded else layer(x))
    layer = module.layer = model
    check(module, [torch.randn(2, 5, 8)], "trace")
    script = torch.jit.freeze(_traced(module, torch.randn(2, 5, 8)))
    assert "_transformer_encoder_layer_fwd" in str(script.graph)


def _traced(module, *inputs):
    with torch.no_grad():
        return torch.jit.trace(module.eval(), inputs, check_trace=False)


@pytest.mark.parametrize("average", [False, True])
def test_weights_of_attention_are_a_result(average):
    torch.manual_seed(0)
    layer = torch.nn.MultiheadAttention(8, 2, batch_first=True)
    module = Case(lambda x: layer(x, x, x, average_attn_weights=average))
    module.layer = layer
    check(module, [torch.randn(2, 3, 8)], "trace")


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("both", [False, True])
@pytest.mark.parametrize("way", ["trace", "export"])
def test_hidden_states_of_an_lstm_are_projected(bias, both, way):
    torch.manual_seed(0)
    check(torch.nn.LSTM(5, 4, 2, bias=bias, bidirectional=both, proj_size=3), [torch.randn(6, 2, 5)], way)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.nn.functional.cross_entropy(x, torch.tensor([1, 0, 3]), label_smoothing=0.1),
        lambda x: torch.nn.functional.kl_div(x.log_softmax(1), x.softmax(0), reduction="batchmean"),
        lambda x: torch.kron(x, x[:2]) + torch.trace(x),
        lambda x: torch.linalg.cross(x[:, :3], x[:, 1:]),
        lambda x: torch.tensordot(x, x, dims=([1], [1])),
        lambda x: torch.hsplit(x, 2)[1] * torch.linalg.norm(x, dim=1, keepdim=True),
    ],
)
def test_an_operator_of_a_trace_without_a_converter_is_taken_apart(function):
    torch.manual_seed(0)
    check(Case(function), [torch.randn(3, 4)], "trace", level=0)


def test_an_operator_is_taken_apart_for_the_shapes_that_are_given():
    script = torch.jit.trace(lambda x: torch.kron(x, x), torch.randn(2, 2))
    mod, params = relay.frontend.from_pytorch(script, [("x", (3, 2))])
    x = torch.randn(3, 2)
    same(run(mod, params, {"x": array(x)}), [torch.kron(x, x)])


def test_a_loop_over_found_elements_runs_for_as_many_as_were_traced():
    class Found(torch.nn.Module):
        def forward(self, x):
            total = torch.zeros(5)
            for place in (x[:, 0] > 0).nonzero():
                total = total * 2 + x[place].sum(0)
            return total

    x = torch.arange(15.0).reshape(3, 5) - 4
    mod, params = traced(Found(), [x])
    other = x.flip(0) + 1
    same(run(mod, params, {"x0": array(other)}, "vm"), [Found()(other)])
    with pytest.raises(TVMError, match="2"):
        run(mod, params, {"x0": array(x + 9)}, "vm")


@pytest.mark.parametrize("rows, ends", [(3, [1, 1, 3, 3]), (9, [0, 4, 9, 9])])
def test_groups_of_rows_are_multiplied_in_single_precision(rows, ends):
    """PyTorch exports these products of bfloat16 alone, and computes those of floats, too."""
    torch.manual_seed(0)
    groups = torch.tensor(ends, dtype=torch.int32)
    check(
        Case(lambda x, w: torch.nn.functional.grouped_mm(x, w, offs=groups)),
        [torch.randn(rows, 16), torch.randn(4, 16, 8)],
        "trace",
    )


def test_celu_with_alpha_0_is_an_error():
    @torch.jit.script
    def divided(x):
        return torch.celu(x, 0.0)

    with pytest.raises(TVMError, match="alpha must not be 0"):
        relay.frontend.from_pytorch(divided, [("x", (3,))])
