"""The families of what open changes cost: per stream, to be summed by model or over the fleet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from monitor.metrics import textformat
from monitor.metrics.textformat import Column, Family

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from monitor.metrics import LossTable

HOURS_PER_DAY = 24.0
SECONDS_PER_HOUR = 3600.0
AGAINST = "against what was usual before the change"


def families(labels: Sequence[str], table: LossTable | None) -> Iterator[Family]:
    """Yield the families of `table`; without an open change they have no samples."""
    for name, help_text, values in _gauges(table):
        columns = [] if values is None else [Column(labels, values)]
        yield Family(f"specmon_{name}", "gauge", help_text, columns)
    shares = {} if table is None else table.tpot_log_shares
    yield Family(
        "specmon_tpot_change_log_share",
        "gauge",
        "Share of ln(TPOT now / before the open change); those of a stream sum to it.",
        [Column(labels, values, textformat.labels({"share": name})) for name, values in shares.items()],
    )


def _gauges(table: LossTable | None) -> Iterator[tuple[str, str, NDArray[np.float64] | None]]:
    yield (
        "tokens_per_second_lost",
        f"Tokens per second that the open change keeps the same GPU time from delivering, {AGAINST}.",
        None if table is None else table.tokens_per_second,
    )
    yield (
        "extra_gpu_seconds_per_million_tokens",
        f"GPU-seconds that a million tokens take more while the change is open, {AGAINST}.",
        None if table is None else table.gpu_seconds_per_million_tokens,
    )
    yield (
        "extra_gpus",
        "GPUs whose whole time the open change takes at the present load; x 24 are GPU-hours a day.",
        None if table is None else table.gpu_hours_per_day / HOURS_PER_DAY,
    )
    yield (
        "extra_cost_per_day",
        "Price of that a day, in the currency of economics.gpu_hour_cost; absent without that setting.",
        None if table is None else table.money_per_day,
    )
    yield (
        "change_tokens_lost",
        "Tokens that the open change has kept the same GPU time from delivering since it began.",
        None if table is None else table.tokens,
    )
    yield (
        "change_gpu_seconds",
        "GPU-seconds that the open change has taken since it began.",
        None if table is None else table.gpu_hours * SECONDS_PER_HOUR,
    )
    yield (
        "change_cost",
        "Price of that so far, in the currency of economics.gpu_hour_cost; absent without that setting.",
        None if table is None else table.money,
    )
