"""Whether speculation is configured: that its counters are there is no proof, for any engine.

llama.cpp, LMDeploy and vLLM's Rust front end make the counters of drafts at 0 whether or not speculation is
on; positions come with the first draft. An engine that speculates drafts with its first tokens, one that
looks for repeated text (ngram, suffix) somewhat later.
"""

from __future__ import annotations

from dataclasses import replace

from monitor.core.pages.engines.base import UNKNOWN, Counter, Evidence, Reading

NEVER_DRAFTED_TOKENS = 1000.0  # so many tokens without one draft: speculation is not configured
PROPOSALS = (Counter.DRAFTS, Counter.DRAFT_TOKENS)


def judged(reading: Reading) -> Reading:
    """Return the reading as off where nothing was ever drafted and nothing says that it should have been.

    While too few tokens were generated to tell, it is undecided. What it counts of drafts is unknown either
    way: no draft is no silence of speculation that nobody configured.
    """
    tokens = reading.counters[Counter.GENERATION_TOKENS]
    if reading.accepted or not tokens > 0 or not reading.speculating or not _never_drafted(reading):
        return reading
    counters = list(reading.counters)
    for counter in (*PROPOSALS, Counter.ACCEPTED_TOKENS):
        counters[counter] = UNKNOWN
    off = tokens > NEVER_DRAFTED_TOKENS
    return replace(
        reading, evidence=Evidence.NONE, counters=tuple(counters), speculating=not off, undecided=not off
    )


def _never_drafted(reading: Reading) -> bool:
    """Return whether the page counts proposals, none yet, and neither positions nor k show that it will."""
    proposals = [reading.counters[counter] for counter in PROPOSALS]
    counted = any(proposal == 0 for proposal in proposals) and not any(proposal > 0 for proposal in proposals)
    return counted and not reading.num_speculative_tokens
