"""What acceptance the operator expects of a model, whatever is learnt."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Self

from pydantic import Field, model_validator

from monitor.settings.section import Section
from monitor.settings.values import ListOf, Number, WholeNumber

if TYPE_CHECKING:
    from collections.abc import Iterable

MOST_POSITIONS = 128


class ReferenceSettings(Section):
    """What is expected of one model: its MAL, or the acceptance of each position."""

    model: str = Field(min_length=1, description="Served name of the model.")
    num_speculative_tokens: WholeNumber | None = Field(
        None, ge=1, le=1000, description="Drafts of this length only. Unset: of any."
    )
    mal: Number | None = Field(
        None, gt=1, le=1001, description="Mean acceptance length that is expected, the bonus token included."
    )
    marginal: ListOf[Number] = Field(
        (),
        max_length=MOST_POSITIONS,
        description="In its place: accepted / drafts of each position, first to last, as engines log it.",
    )
    tolerance: Number = Field(
        0.1, ge=0, lt=1, description="Share of MAL - 1 that may be missing before it is an event."
    )
    source: str = Field("", description="Where the number is from, such as a benchmark; shown beside it.")

    @model_validator(mode="after")
    def _told_once(self) -> Self:
        if (self.mal is None) == (not self.marginal):
            read = "neither" if self.mal is None else "both"
            raise ValueError(f"expected mal or marginal, read {read}")
        if any(not 0.0 <= each <= 1.0 for each in self.marginal) or self.marginal[:1] == (0.0,):
            raise ValueError(f"expected marginal acceptances from 0 to 1, read {_shown(self.marginal)}")
        if any(later > earlier for earlier, later in itertools.pairwise(self.marginal)):
            raise ValueError(
                "expected marginal acceptances, each accepted / drafts and so none above the one before it, "
                f"read {_shown(self.marginal)}"
            )
        return self

    @property
    def expected_mal(self) -> float:
        """The MAL that is expected: as told, or as the positions make it."""
        return 1.0 + sum(self.marginal) if self.mal is None else self.mal


def refuse_two_of_a_kind(given: Iterable[ReferenceSettings]) -> None:
    """Raise ValueError where a model and k are told of twice."""
    seen: set[tuple[str, int | None]] = set()
    for each in given:
        kind = each.model, each.num_speculative_tokens
        if kind in seen:
            raise ValueError(
                f"expected one reference of each model and num_speculative_tokens, read two of {each.model!r}"
            )
        seen.add(kind)


def _shown(values: Iterable[float]) -> str:
    return ", ".join(f"{value:g}" for value in values)
