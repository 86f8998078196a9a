"""Settings -> the parts of the service: the pipeline's plan and the targets to scrape."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from monitor import detectors, pipeline, streams
from monitor.sources import targets

if TYPE_CHECKING:
    from monitor.settings import Settings, Target


def plan(settings: Settings) -> pipeline.Plan:
    """Return what the pipeline needs to know."""
    plain = settings.economics.plain_step_seconds
    return pipeline.Plan(
        detection=detectors.Plan(false_alarms_per_month=settings.detection.false_alarms_per_month),
        limits=streams.Limits(scrape_interval=settings.scrape.interval),
        declared={target.label: _declared(target) for target in settings.targets},
        plain_step_seconds=math.nan if plain is None else plain,
    )


def scrape_targets(settings: Settings) -> list[targets.Target]:
    """Return the targets to scrape; a target's own token stands before the token for all."""
    return [_target(settings, target) for target in settings.targets]


def _declared(target: Target) -> pipeline.Declared:
    return pipeline.Declared(
        draft_model=target.draft_model,
        method=target.method,
        num_speculative_tokens=target.num_speculative_tokens or 0,
        labels=tuple(sorted(target.labels.items())),
    )


def _target(settings: Settings, target: Target) -> targets.Target:
    scrape = settings.scrape
    own = bool(target.bearer_token.get_secret_value() or target.bearer_token_file)
    token, token_file = (
        (target if own else scrape).bearer_token,
        (target if own else scrape).bearer_token_file,
    )
    return targets.Target(
        name=target.label,
        url=target.url,
        labels=tuple(sorted(target.labels.items())),
        headers=tuple((name, value.get_secret_value()) for name, value in target.headers.items()),
        bearer_token=token.get_secret_value() or None,
        bearer_token_file=token_file or None,
        tls=_tls(target),
        interval=scrape.interval,
        timeout=scrape.timeout,
        body_limit=scrape.body_limit,
    )


def _tls(target: Target) -> targets.Tls | None:
    tls = target.tls
    made = targets.Tls(
        ca_file=tls.ca_file or None,
        cert_file=tls.cert_file or None,
        key_file=tls.key_file or None,
        server_name=tls.server_name or None,
        insecure_skip_verify=tls.insecure_skip_verify,
    )
    return None if made == targets.Tls() else made
