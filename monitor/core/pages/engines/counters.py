"""Reads counters that come without a page: one mapping (a JSON line) is one reading of one stream."""

from __future__ import annotations

from typing import TYPE_CHECKING

from monitor.core.pages.engines.base import NUM_COUNTERS, UNKNOWN, Counter, Evidence, Reading

if TYPE_CHECKING:
    from collections.abc import Mapping

LARGEST = 1e18  # no counter gets there; also refuses infinity, and NaN fails every comparison
SHOWN_CHARACTERS = 60

# The accepted tokens stay unknown: `deltas` adds up the positions, which the record has one by one.
_REST_UNKNOWN = (UNKNOWN,) * (NUM_COUNTERS - Counter.ACCEPTED_TOKENS)
_OPTIONAL = {
    "generation_tokens": Counter.GENERATION_TOKENS,
    "step_count": Counter.ENGINE_STEPS,
    "step_seconds_sum": Counter.ENGINE_STEP_SECONDS,
}


class Malformed(Exception):  # noqa: N818 - `counters.Malformed` is read aloud where it is caught
    """The mapping is not a record of counters; the message says which field, what was read and expected."""


def reading(record: Mapping[str, object]) -> Reading:
    """Return the reading of one record of cumulative counters.

    Required: `model_name`, `drafts`, `draft_tokens` and `accepted`, a list with the accepted tokens of each
    position. Optional, absent or null where unknown: `replica`, `generation_tokens`, `step_seconds_sum`
    (seconds), `step_count`, `running`, `started_at` (unix seconds), `engine_version` and `config`, a
    mapping that names what must stay the same for two readings to be comparable. Raises Malformed.
    """
    try:
        per_position = record["accepted"]
        if type(per_position) is not list:
            raise _refused("accepted", per_position, "a list with the accepted tokens of each position")
        accepted = tuple([_number("accepted", value) for value in per_position])
        drafts = _number("drafts", record["drafts"])
        draft_tokens = _number("draft_tokens", record["draft_tokens"])
        model_name = record["model_name"]
    except KeyError as error:
        raise Malformed(f"{error.args[0]} is missing, expected the fields {_EXPECTED}") from None
    if type(model_name) is not str:
        raise _refused("model_name", model_name, "a text")
    return Reading(
        model_name=model_name,
        replica=_text("replica", record.get("replica"), "0"),
        evidence=Evidence.STEPS,
        counters=(drafts, draft_tokens, *_rest(record)),
        accepted=accepted,
        num_speculative_tokens=len(accepted),
        running=_optional(record, "running"),
        started_at=_optional(record, "started_at"),
        engine_version=_text("engine_version", record.get("engine_version"), ""),
        config=_config(record.get("config")),
    )


_EXPECTED = "model_name, drafts, draft_tokens and accepted"


def _rest(record: Mapping[str, object]) -> tuple[float, ...]:
    """Return the counters from the accepted tokens on; most records have none of them."""
    values: list[float] | None = None
    for name, counter in _OPTIONAL.items():
        if record.get(name) is not None:
            values = values or list(_REST_UNKNOWN)
            values[counter - Counter.ACCEPTED_TOKENS] = _number(name, record[name])
    return _REST_UNKNOWN if values is None else tuple(values)


def _number(name: str, value: object) -> float:
    if (type(value) is int or type(value) is float) and 0 <= value < LARGEST:
        return float(value)
    raise _refused(name, value, "a number from 0 up")


def _optional(record: Mapping[str, object], name: str) -> float:
    value = record.get(name)
    return UNKNOWN if value is None else _number(name, value)


def _text(name: str, value: object, default: str) -> str:
    if type(value) is str:
        return value
    if value is None:
        return default
    if type(value) is int:  # a replica is an index, and JSON writers write it as one
        return str(value)
    raise _refused(name, value, "a text")


def _config(value: object) -> tuple[tuple[str, str], ...]:
    if value is None:
        return ()
    if not isinstance(value, dict):
        raise _refused("config", value, "a mapping of names to values")
    return tuple(sorted((str(name), str(content)) for name, content in value.items()))


def _refused(name: str, value: object, expected: str) -> Malformed:
    return Malformed(f"{name} is {str(value)[:SHOWN_CHARACTERS]!r}, expected {expected}")
