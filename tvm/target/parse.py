"""Parses target text: ``"llvm -mcpu=skylake -mattr=+avx512f,+fma"`` to an option dict and back.

Grammar: words separated by spaces; the first is the kind; the rest are ``-key=value``, ``-key value`` or a ``-flag``; a
value with spaces, commas inside a list element or quotes is enclosed in single quotes with backslash escapes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tvm.error import TargetError, did_you_mean
from tvm.target.kinds import KINDS, TargetKind

_TRUE = ("1", "true", "True", "on")
_FALSE = ("0", "false", "False", "off")


def near(word: str, known: Iterable[str]) -> str:
    """Return the " (did you mean ...?)" part of a message; empty if no known word is similar."""
    hint = did_you_mean(word, known)
    return f" ({hint})" if hint else ""


def kind_named(name: str, tags: Iterable[str] = ()) -> TargetKind:
    kind = KINDS.get(name) or _installed_kind(name)
    if kind is None:
        hint = near(name, [*KINDS, *tags])
        raise TargetError(f"unknown target kind or tag '{name}'{hint}; known kinds: {', '.join(KINDS.names())}")
    return kind


def _installed_kind(name: str) -> TargetKind | None:
    """Import the kind that an installed package provides: its entry point in the group ``tvm.backends`` has the kind's
    name and specifies the module to import."""
    from importlib.metadata import entry_points

    for entry in entry_points(group="tvm.backends", name=name):
        try:
            entry.load()
        except Exception as error:
            raise TargetError(
                f"target kind '{name}' is provided by an installed package, whose module '{entry.value}' cannot be "
                f"imported: {type(error).__name__}: {error}"
            ) from error
    return KINDS.get(name)


def split_outside_quotes(text: str, separator: str) -> list[str]:
    """Split at each ``separator`` outside quotes; quotes and escapes are kept."""
    parts, current, quote, index = [], [], "", 0
    while index < len(text):
        char = text[index]
        if char == "\\" and index + 1 < len(text):
            current.append(text[index : index + 2])
            index += 2
            continue
        if quote:
            quote = "" if char == quote else quote
        elif char in "'\"":
            quote = char
        if char == separator and not quote:
            parts.append("".join(current))
            current = []
        else:
            current.append(char)
        index += 1
    if quote:
        raise TargetError(f"the target text {text!r} contains an opening quote {quote} that is never closed")
    parts.append("".join(current))
    return parts


def unquote(text: str) -> str:
    """Remove one level of quotes and escapes."""
    result, quote, index = [], "", 0
    while index < len(text):
        char = text[index]
        if char == "\\" and index + 1 < len(text):
            result.append(text[index + 1])
            index += 2
            continue
        if quote and char == quote:
            quote = ""
        elif not quote and char in "'\"":
            quote = char
        else:
            result.append(char)
        index += 1
    return "".join(result)


def _quote(text: str, special: str) -> str:
    if text and not any(char in text for char in special):
        return text
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'").replace('"', '\\"') + "'"


def value_to_text(value: object) -> str:
    """Format an option value so that parsing the text gives the same value."""
    if isinstance(value, bool):
        return "1" if value else "0"
    if isinstance(value, (tuple, list)):
        return _quote(",".join(_quote(str(item), " ,'\"\\") for item in value), " '\"\\")
    return _quote(str(value), " '\"\\")


def _is_one_quoted(text: str) -> bool:
    """Whether the quote that opens ``text`` is closed by its last character."""
    if len(text) < 2 or text[0] not in "'\"" or text[-1] != text[0]:
        return False
    index = 1
    while index < len(text) - 1:
        if text[index] == "\\":
            index += 1
        elif text[index] == text[0]:
            return False
        index += 1
    return index == len(text) - 1


def _split_list(text: str) -> list[str]:
    inner = unquote(text) if _is_one_quoted(text) else text
    return [unquote(part) for part in split_outside_quotes(inner, ",") if part.strip()]


def text_to_config(text: str, tags: Iterable[str] = ()) -> dict[str, object]:
    """Parse target text whose first word is a kind."""
    words = [word for word in split_outside_quotes(text, " ") if word]
    if not words:
        raise TargetError("the target text is empty; examples: 'llvm', 'cuda -arch=sm_90', 'c -mcpu=cortex-m55'")
    kind = kind_named(words[0], tags)
    config: dict[str, object] = {"kind": kind.name}
    index = 1
    while index < len(words):
        word = words[index]
        index += 1
        if not word.startswith("-"):
            raise TargetError(
                f"target '{text}': '{word}' is not an option; options start with '-', and a value with spaces must be "
                "quoted"
            )
        name, equals, value = word.lstrip("-").partition("=")
        name = kind.aliases.get(name, name)
        if not equals:
            if index < len(words) and not words[index].startswith("-"):
                value = words[index]
                index += 1
            else:
                value = None
        if name in config:
            raise TargetError(f"target '{text}': option '{name}' is given more than once")
        config[name] = _flag(kind, name) if value is None else _from_text(kind, name, value)
    return config


def _option(kind: TargetKind, name: str):
    option = kind.schema.get(name)
    if option is None:
        known = sorted(kind.schema)
        raise TargetError(
            f"target kind '{kind.name}' has no option '{name}'{near(name, known)}; its options are {', '.join(known)}"
        )
    return option


def _flag(kind: TargetKind, name: str) -> object:
    option = _option(kind, name)
    if option.type is bool:
        return True
    if option.type is int:
        return 1
    raise TargetError(f"option '{name}' of target kind '{kind.name}' needs a value: -{name}=...")


def _from_text(kind: TargetKind, name: str, value: str) -> object:
    option_type = _option(kind, name).type
    if option_type in (list, "targets"):
        return _split_list(value)
    plain = unquote(value)
    if option_type is int:
        return _integer(kind, name, plain)
    if option_type is bool:
        return _boolean(kind, name, plain)
    return plain


def _integer(kind: TargetKind, name: str, value: object) -> int:
    try:
        return int(str(value), 0)
    except ValueError:
        message = f"option '{name}' of target kind '{kind.name}' wants an integer, not {value!r}"
        raise TargetError(message) from None


def _boolean(kind: TargetKind, name: str, value: object) -> bool:
    text = str(value)
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    raise TargetError(f"option '{name}' of target kind '{kind.name}' must be true or false (or 1 or 0), got {value!r}")


def _strings(kind: TargetKind, name: str, value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        value = _split_list(value)
    if isinstance(value, Mapping) or not isinstance(value, Iterable):
        raise TargetError(f"option '{name}' of target kind '{kind.name}' must be a list of strings, got {value!r}")
    return tuple(str(item) for item in value)


def checked_value(kind: TargetKind, name: str, value: object) -> object:
    """Convert ``value`` to the type of the option; nested targets are left to the caller."""
    option_type = _option(kind, name).type
    if option_type is int:
        return _integer(kind, name, value)
    if option_type is bool:
        return _boolean(kind, name, value)
    if option_type is list:
        return _strings(kind, name, value)
    if option_type is str:
        if isinstance(value, (Mapping, list, tuple)):
            raise TargetError(f"option '{name}' of target kind '{kind.name}' must be a string, got {value!r}")
        return str(value)
    return value


def json_to_config(text: str) -> dict[str, object]:
    import json

    try:
        config = json.loads(text)
    except json.JSONDecodeError as error:
        raise TargetError(f"the target text starts like JSON but is not valid JSON: {error}; text: {text}") from None
    if not isinstance(config, dict):
        raise TargetError(f"a JSON target must be an object with a 'kind', got {text}")
    return config
