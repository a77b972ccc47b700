"""Every public name has a docstring that describes its parameters, and no others."""

from __future__ import annotations

from pathlib import Path

import pytest

from tvm.docstring import completed, describe_returns, described, docstring, words

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def public_names(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    import public_names

    return public_names


def test_every_public_name_is_described_with_its_parameters(public_names):
    complaints = [said for public in public_names.public_names() if (said := public_names.complaint(public))]
    assert not complaints, "\n".join([f"{len(complaints)} docstrings are not whole:", *complaints])


def says(public_names, function) -> str | None:
    return public_names.complaint(public_names.Public("here", "f", function))


def test_what_a_docstring_lacks_is_said(public_names):
    def bare(a):
        pass

    def plain(a, b):
        """Adds."""

    def wrong(a):
        """Adds.

        Parameters
        ----------
        b : int
            The other.
        """

    def whole(a, *rest, span=None):
        """Adds.

        Parameters
        ----------
        a : int
            The one.
        *rest : int
            The others.
        """

    assert says(public_names, bare) == "here.f has no docstring"
    assert says(public_names, plain) == "here.f does not describe a, b"
    assert says(public_names, wrong) == "here.f describes b, which it does not take (a)"
    assert says(public_names, whole) is None


def test_a_docstring_is_put_together_from_its_parts():
    text = docstring("Adds.", [("a", "int", "The one.")], "int")
    assert text == "Adds.\n\nParameters\n----------\na : int\n    The one.\n\nReturns\n-------\nint\n"


def test_parameters_of_a_family_complete_a_docstring_and_its_own_win():
    known = {"a": ("int", "The one."), "b": ("int", "The other."), "rest": ("int", "More.")}

    @described(known, returns="int")
    def add(a, b, *rest):
        """Adds.

        Parameters
        ----------
        b : float
            The second.
        """

    assert add.__doc__ == (
        "Adds.\n\nParameters\n----------\na : int\n    The one.\nb : float\n    The second.\n*rest : int\n    More.\n"
        "\nReturns\n-------\nint\n"
    )


def test_parameters_of_a_family_complete_the_docstring_of_a_class():
    @described({"a": ("int", "The one.")})
    class Sum:
        """A sum."""

        def __init__(self, a):
            self.a = a

    assert Sum.__doc__ == "A sum.\n\nParameters\n----------\na : int\n    The one.\n"


def test_sections_after_the_parameters_are_kept():
    text = "Adds.\n\nReturns\n-------\nfloat\n    The sum."
    code = (lambda a: a).__code__
    assert completed(text, code, {"a": ("int", "The one.")}) == (
        "Adds.\n\nParameters\n----------\na : int\n    The one.\n\nReturns\n-------\nfloat\n    The sum.\n"
    )


@pytest.fixture
def docstring_rules(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    import docstring_rules

    return docstring_rules


def test_every_function_says_what_it_returns_and_raises(docstring_rules):
    found = [said for public in docstring_rules.public_names() for said in docstring_rules.complaints(public)]
    assert not found, "\n".join(found)


def test_what_a_docstring_lacks_about_values_and_errors_is_said(docstring_rules):
    def load(path):
        """Load a file.

        Returns
        -------
        bytes
        """
        if not path:
            raise ValueError("no path")
        return b""

    def bare(path):
        """Load a file."""
        return path

    def size(path):
        """The size of a file.

        Returns
        -------
        int

        Raises
        ------
        ValueError
            There is no path.
        """
        if not path:
            raise ValueError("no path")

        def inner():
            raise KeyError(path)

        try:
            return len(path) + inner()
        except OSError as error:
            raise error

    def nothing(path):
        """Remove a file."""
        if not path:
            return None

    def said(function) -> list[str]:
        return docstring_rules.complaints(docstring_rules.Public("here", "f", function))

    assert said(load) == [
        "here.f raises ValueError, which it does not describe",
        "here.f gives the type alone of what it returns",
    ]
    assert said(bare) == ["here.f does not say what it returns"]
    assert said(size) == said(nothing) == []


def test_methods_of_public_classes_are_described_as_functions_are(docstring_rules):
    found = docstring_rules.undescribed_methods()
    assert not found, "\n".join([f"{len(found)} methods:", *found])


def test_what_the_docstring_of_a_method_lacks_is_said(docstring_rules, public_names):
    class Base:
        def give(self, a):
            """Give.

            Parameters
            ----------
            a : int
                The number.
            """

    class Derived(Base):
        def give(self, a):
            pass

        @staticmethod
        def make(a):
            """Make one."""

        def take(self, a):
            """Take one."""

        def _own(self, a):
            pass

    found = list(public_names.methods(docstring_rules.Public("here", "D", Derived)))
    assert [public_names.complaint(method) for method in found] == [
        "here.D.make does not describe a",
        "here.D.take does not describe a",
    ]
    assert [
        public_names.complaint(method) for method in public_names.methods(docstring_rules.Public("here", "B", Base))
    ] == [None]


def test_a_value_is_added_before_the_errors_that_a_docstring_describes():
    text = "Adds.\n\nRaises\n------\nValueError\n    Too large."
    code = (lambda a: a).__code__
    assert completed(text, code, {"a": ("int", "The one.")}, "int") == (
        "Adds.\n\nParameters\n----------\na : int\n    The one.\n\nReturns\n-------\nint\n\n"
        "Raises\n------\nValueError\n    Too large.\n"
    )


def test_the_words_of_a_docstring_end_where_its_sections_begin():
    assert words("Adds.\n\n    More.\n\n    Raises\n    ------\n    ValueError\n") == "Adds.\n\nMore."
    assert words("Adds.\n\nParameters\n----------\na\n\nReturns\n-------\nint\n") == words("  Adds.\n") == "Adds."


def test_passes_say_that_they_are_passes():
    def first() -> Pass:  # noqa: F821
        """Drops what is empty."""

    def second(a) -> Pass:  # noqa: F821
        """Drops.

        Returns
        -------
        ModulePass
        """

    def third() -> int:
        """The number."""

    describe_returns([first, second, third, 3], "The pass.", "Pass")
    assert first.__doc__ == "Drops what is empty.\n\nReturns\n-------\nPass\n    The pass.\n"
    assert second.__doc__ == "Drops.\n\nReturns\n-------\nModulePass\n    The pass.\n"
    assert third.__doc__ == "The number."
