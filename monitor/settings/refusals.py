"""From what pydantic refused to one line per problem: where it was read, what was read, what was expected."""

from __future__ import annotations

from typing import TYPE_CHECKING

from monitor.settings import layers, values

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pydantic import ValidationError
    from pydantic_core import ErrorDetails

    from monitor.settings.layers import Layer
    from monitor.settings.values import Setting

_LONGEST_SHOWN = 80
_CONTAINERS = {
    "dict_type": "a mapping",
    "mapping_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
    "tuple_type": "a list",
}


def lines(error: ValidationError, given: Sequence[Layer], known: Mapping[str, Setting]) -> list[str]:
    """One line per problem of `error`; `given` are the layers, strongest first, `known` all settings."""
    return [_line(detail, given, known) for detail in error.errors(include_url=False)]


def _line(detail: ErrorDetails, given: Sequence[Layer], known: Mapping[str, Setting]) -> str:
    name = _name(detail["loc"])
    where = _where(name, given)
    general = _general(name)
    if detail["type"] == "extra_forbidden":
        return f"{where}: no such setting{layers.suggestion(general, known)}"
    if detail["type"] == "missing":
        return f"{where}: missing"
    expected = _expected(detail)
    if detail["type"] == "value_error" and isinstance(detail["input"], dict | tuple):
        # Settings that do not go together; the message names them and what was read.
        return f"{where if '[' in name else name}: {expected}" if name else expected
    return f"{where}: read {_shown(detail['input'], _setting(general, known))}, {expected}"


def _name(path: tuple[int | str, ...]) -> str:
    """`targets[0].url` of ("targets", 0, "url")."""
    steps = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in path if step != "[key]")
    return "".join(steps).removeprefix(".")


def _general(name: str) -> str:
    """`targets[].url` of `targets[0].url`."""
    return "".join(
        "[]" if index % 2 else part for index, part in enumerate(name.replace("]", "[").split("["))
    )


def _where(name: str, given: Sequence[Layer]) -> str:
    """The name in the words of the place that said it: the strongest layer that sets it."""
    setting, bracket, rest = name.partition("[")
    for layer in given:
        if layer.has(setting):
            return layer.source(setting) + bracket + rest
    # Flags and variables are checked by name beforehand: what is unknown here is the file's, the last layer.
    section, _, key = name.partition(".")
    return given[-1].source(name) if key and given[-1].values.get(section) is not None else name


def _setting(general: str, known: Mapping[str, Setting]) -> Setting | None:
    """The setting itself, or the list or mapping that the name is an entry of."""
    while general and general not in known:
        general = general.removesuffix("[]") if general.endswith("[]") else general.rpartition(".")[0]
    return known.get(general)


def _shown(value: object, setting: Setting | None) -> str:
    if setting is not None and setting.secret:
        return values.MASK
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list | tuple):
        return "a list" if value else "an empty list"
    text = values.without_secrets(repr(value) if isinstance(value, str) else str(value))
    return text if len(text) <= _LONGEST_SHOWN else text[:_LONGEST_SHOWN] + "…"


def _expected(detail: ErrorDetails) -> str:
    """What was expected, from our own message or from pydantic's."""
    if detail["type"] in _CONTAINERS:
        return f"expected {_CONTAINERS[detail['type']]}"
    if detail["type"] == "value_error":
        return str(detail["ctx"]["error"])
    message = detail["msg"].partition(", unable to")[0]
    return message.replace("Input should be ", "expected ").replace("a valid ", "a ")
