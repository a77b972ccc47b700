"""SpanCheck: expressions that do not record where they come from."""

from __future__ import annotations

import tvm
from tvm import relay
from tvm.ir.diagnostics import DiagnosticLevel, override_renderer
from tvm.ir.span import SourceName, Span


def messages(mod) -> list[tuple[str, int | None]]:
    found = []
    override_renderer(lambda ctx: found.extend(ctx.diagnostics))
    try:
        checked = relay.SpanCheck()(mod)
    finally:
        override_renderer(None)
    assert tvm.ir.structural_equal(checked, relay.transform.InferType()(mod))
    assert all(d.level == DiagnosticLevel.WARNING for d in found)
    return [(d.message, d.span and d.span.line) for d in found]


def test_each_expression_without_a_span_is_named_at_the_nearest_one():
    def at(line):
        return Span(SourceName("a.relay"), line, line, 1, 9)

    x = relay.var("x", shape=(2,))
    inner = relay.nn.relu(x)
    outer = relay.Call(relay.op.get("exp"), [inner], None, None, at(4))
    mod = tvm.IRModule.from_expr(relay.Function([x], outer))
    found = messages(mod)
    assert ("call of nn.relu has no span", 4) in found and ("Function has no span", None) in found
    assert not any("exp" in text for text, _ in found)
    assert [text for text, _ in found if "variable" in text] == ["variable x has no span"]


def test_the_text_of_a_program_has_spans():
    mod = tvm.relay.fromtext('#[version = "0.0.5"]\ndef @main(%x: Tensor[(2), float32]) { nn.relu(%x) }')
    assert not any("nn.relu" in text for text, _ in messages(relay.transform.AnnotateSpans()(mod)))
    assert tvm.parser.SpanCheck is relay.SpanCheck
