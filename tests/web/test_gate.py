"""A candidate is told better, worse, no different or not known enough from history, by label."""

from __future__ import annotations

import json
from urllib.parse import quote

import pytest

from monitor.web import gate, gate_shapes
from monitor.web.asking import Refused
from monitor.web.gate import Term
from tests.web import serving, two_releases
from tests.web.fleet_of_five import Service

SIDES = "baseline=version=v1&candidate=version=v2"


async def answered(query: str, view: object, status: int = 200) -> dict[str, object]:
    """What the verdict's path answers, with the status that is expected."""
    async with serving.client(view) as session, session.get(f"/api/v1/verdict?{query}") as answer:  # type: ignore[arg-type]
        text = await answer.text()
        assert answer.status == status, text
    found: dict[str, object] = json.loads(text)
    return found


def truth(acceptance: float) -> float:
    """How many more tokens per draft v2 has than v1."""
    return sum(acceptance**place - 0.7**place for place in range(1, two_releases.TOKENS + 1))


@pytest.mark.parametrize(
    ("acceptance", "word"),
    [(0.6, "worse"), (0.7, "no_difference"), (0.8, "better")],
    ids=["down", "same", "up"],
)
async def test_the_word_and_its_size(acceptance: float, word: str) -> None:
    """After an hour side by side the word is right, the interval holds the truth, and so does that of speed."""
    found = gate_shapes.GateJson.model_validate(await answered(SIDES, two_releases.look(acceptance)))
    assert (found.verdict, found.by, found.same_time, found.positions) == (word, "acceptance", True, 3)
    assert found.mal_difference_low is not None
    assert found.mal_difference_high is not None
    assert found.mal_difference_low <= truth(acceptance) <= found.mal_difference_high
    assert found.tokens_per_second_ratio == pytest.approx(
        1.0 + truth(acceptance) / (1.0 + 0.7 + 0.49 + 0.343), rel=0.02
    )
    assert found.tokens_per_second_verdict == word
    assert (len(found.baseline), len(found.candidate)) == (1, 1)
    assert (found.baseline[0].split("~")[0], found.candidate[0].split("~")[0]) == ("old", "new")


async def test_what_is_expected_is_the_status() -> None:
    """A word that is not expected is a 409 with the same answer."""
    view = two_releases.look(0.6)
    found = await answered(SIDES, view)
    assert await answered(f"{SIDES}&expect=worse", view) == found
    assert await answered(f"{SIDES}&expect=better,no_difference", view, 409) == found


async def test_too_little_is_not_enough() -> None:
    """Five minutes say nothing, nor does a side that no stream is of, and the reason says which."""
    view = two_releases.look(0.6, 5)
    assert (await answered(SIDES, view))["verdict"] == "not_enough"
    found = await answered("baseline=version=v1&candidate=version=v3", two_releases.look(0.6))
    assert (found["verdict"], found["reason"]) == ("not_enough", "no stream has version=v3 (candidate)")


async def test_since_and_margin_are_heeded() -> None:
    """The candidate counts from `since` on; a loss of a hundredth is not excluded by an hour."""
    view = two_releases.look(0.7)
    late = await answered(f"{SIDES}&since={view.now - 900.0}", view)
    assert late["minutes"] == 14
    assert (await answered(f"{SIDES}&margin=0.01", view))["verdict"] == "not_enough"


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("", "parameter 'baseline' is ''; expected name=value"),
        ("baseline=v1&candidate=version=v2", "parameter 'baseline' is 'v1'"),
        ("baseline=version=v1&candidate=target!=none", "both choose the stream"),
        (f"{SIDES}&expect=good", "expected words of better, worse, no_difference, not_enough"),
        (f"{SIDES}&margin=0", "parameter 'margin' is '0'; expected a share"),
        (f"{SIDES}&margin=nan", "parameter 'margin' is 'nan'"),
        (f"{SIDES}&model=m", "parameter 'model' is not known here"),
        (f"{SIDES}&since=yesterday", "parameter 'since' is 'yesterday'"),
    ],
)
async def test_what_is_not_understood_is_refused(query: str, said: str) -> None:
    """A wrong question is a 400 that says what was read and what was expected."""
    found = await answered(query, two_releases.look(0.7), 400)
    assert said in str(found["error"])


async def test_a_side_is_of_one_model() -> None:
    """Streams of several models are no side; the answer names them."""
    found = await answered(f"baseline=target!=x&candidate=target={quote('none')}", Service(), 400)
    assert "chooses the models" in str(found["error"])


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("a=b", (Term("a", "b", equal=True),)),
        (" a != b , c=", (Term("a", "b", equal=False), Term("c", "", equal=True))),
        ("model_name=org/m=1", (Term("model_name", "org/m=1", equal=True),)),
    ],
)
def test_selectors(text: str, terms: tuple[Term, ...]) -> None:
    """Conditions are joined by commas; a value may hold an equals sign or be empty."""
    assert gate.terms_of("baseline", text) == terms


@pytest.mark.parametrize("text", ["", " ", "a", "a=b,", "=b", "a=b,,c=d"])
def test_half_a_selector_is_none(text: str) -> None:
    """A condition without a name or without a value's sign is refused."""
    with pytest.raises(Refused, match="expected name=value or name!=value"):
        gate.terms_of("baseline", text)
