"""The words of the pages, each with one sentence that defines it."""

from __future__ import annotations

GLOSSARY = {
    "mean acceptance length (MAL)": (
        "Tokens that a draft yields: 1 + accepted tokens ÷ drafts. The 1 is the token that the target "
        "model adds itself, so 1.00 means that drafting gains nothing."
    ),
    "marginal acceptance": (
        "Of all drafts, the share in which the token at this position was kept. Position 0 is the first."
    ),
    "conditional acceptance": (
        "Of the drafts whose previous position was kept, the share that kept this one too: what says "
        "whether the draft model itself predicts well at this depth."
    ),
    "α": (
        "A model value, not a count: the constant conditional acceptance that would give the same mean "
        "acceptance length."
    ),
    "draft token acceptance ratio": (
        "Accepted tokens ÷ draft tokens. It moves with the number of speculative tokens alone, is not "
        "α, and is never judged."
    ),
    "coverage": "The share of decode steps that carried a draft at all.",
    "tokens per step": "Tokens delivered per decode step, steps without a draft included.",
    "step time": "Time of one engine step, drafting and verification included.",
    "implied TPOT": "Step time ÷ tokens per step: the time per output token that the step counters imply.",
    "observed TPOT": "Time per output token from the latencies of requests that finished in the window.",
    "baseline": (
        "The acceptance of this regime in control. It belongs to one model, draft, method, k and engine "
        "version, and never follows a fall."
    ),
    "benefit lost": (
        "(Baseline MAL − MAL) ÷ (baseline MAL − 1): the share of the tokens won by drafting that is gone."
    ),
    "drift score": "Evidence of a change ÷ the limit of its detector: above 1 is an alarm.",
    "regime": "The span in which model, draft, method, k and engine version stay the same.",
}

CHECKS = {
    "positions_sum": "The positions' accepted tokens do not add up to all that were accepted.",
    "positions_order": "A later position accepted more than the one before it.",
    "accepted_tokens": "More tokens were accepted than drafted.",
    "acceptance_length": "More tokens were accepted per draft than a draft is long.",
    "counter_decrease": "A counter went down though the engine did not start again.",
    "late_page": "A page was older than the one before it.",
    "duplicate_series": "A page has one series twice.",
    "unreadable_line": "A line of a page is no sample.",
}
"""What each check of the data found, where it failed."""
