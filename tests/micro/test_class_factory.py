"""Constructor calls as JSON."""

from __future__ import annotations

import json

import pytest

from tvm.micro.class_factory import ClassFactory, SerializedFactoryError


class Base:
    def __init__(self, *args, **kw):
        self.args, self.kw = args, kw


class Child(Base):
    pass


class BaseFactory(ClassFactory):
    SUPERCLASS = Base


def test_a_factory_survives_json():
    made = BaseFactory(Child, [1, "two"], {"three": [3.5, None]})
    found = BaseFactory.from_json(made.to_json)
    value = found.override_kw(three=4, five=True).instantiate()
    assert type(value) is Child and value.args == (1, "two") and value.kw == {"three": 4, "five": True}
    assert found.instantiate().kw == {"three": [3.5, None]}


def test_classes_and_arguments_are_checked():
    with pytest.raises(TypeError, match="dict is not a subclass of Base"):
        BaseFactory(dict, [], {})
    with pytest.raises(TypeError, match="not JSON serializable"):
        BaseFactory(Child, [object()], {}).to_json


@pytest.mark.parametrize(("text", "words"), [
    ("{", "is not a serialized factory"), ("3", "is not a serialized factory"), ("[" * 10**5, "not a serialized"),
    (json.dumps({"cls": 3, "init_args": [], "init_kw": {}}), "a member has a wrong type"),
    (json.dumps({"cls": "no.such.Class", "init_args": [], "init_kw": {}}), "does not exist"),
    (json.dumps({"cls": "Child", "init_args": [], "init_kw": {}}), "does not exist"),
    (json.dumps({"cls": "os.system", "init_args": ["true"], "init_kw": {}}), "is not a subclass of Base"),
    (json.dumps({"cls": "builtins.dict", "init_args": [], "init_kw": {}}), "is not a subclass of Base"),
])  # fmt: skip
def test_texts_that_are_no_factories_are_rejected(text, words):
    with pytest.raises(SerializedFactoryError, match=words):
        BaseFactory.from_json(text)
