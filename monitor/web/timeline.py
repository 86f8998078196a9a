"""One timeline of what changed: of a stream, of a model, or of all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from monitor.web import fields

if TYPE_CHECKING:
    from collections.abc import Collection

    from monitor.web.fields import Record
    from monitor.web.view import StreamView, View


def of(
    view: View,
    *,
    stream: StreamView | None = None,
    model_name: str = "",
    target: str = "",
    source: str = "",
    span: tuple[float, float],
) -> list[Record]:
    """Return what changed within a span (unix seconds, its end excluded), newest first.

    What was told without a model or target concerns each of them.
    """
    if stream is not None:
        models, targets = {stream.model_name}, {stream.target}
    else:
        models, targets = {model_name} - {""}, {target} - {""}
    return [
        each
        for each in view.changes()
        if span[0] <= (fields.number(each, "at") or 0.0) < span[1]
        and source in ("", each["source"])
        and _concerns(each, "model_name", models)
        and _concerns(each, "target", targets)
        and (stream is None or each["stream"] in (None, stream.id))
    ]


def _concerns(change: Record, name: str, wanted: Collection[str]) -> bool:
    value = fields.text(change, name)
    return not wanted or not value or value in wanted
