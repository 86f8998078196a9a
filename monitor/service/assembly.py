"""Settings, and what discovery found -> the parts of the service: plan, targets, providers."""

from __future__ import annotations

import importlib.util
import json
import math
import socket
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from monitor import notify
from monitor.core import detectors, pipeline, streams
from monitor.core.economics import costs, side_by_side
from monitor.core.streams import regimes
from monitor.core.streams.pinned import Pinned
from monitor.core.streams.worth import Told
from monitor.sources import targets
from monitor.sources.discovery import shards

if TYPE_CHECKING:
    from collections.abc import Sequence

    from monitor.settings import Settings, TargetSettings
    from monitor.settings.discovery import HttpDiscovery, KubernetesDiscovery
    from monitor.settings.notify import ReceiverSettings
    from monitor.settings.references import ReferenceSettings
    from monitor.settings.section import TlsSettings
    from monitor.settings.sections import Economics, ModelEconomics
    from monitor.sources.discovery import Found, Provider
    from monitor.sources.prometheus import GridReader, Wanted

LONGEST_ANSWER_SECONDS = 10.0
# Kind of discovery -> the module that it needs, which an extra of the same name installs.
EXTRAS = {"dns": "dns", "kubernetes": "lightkube"}


class MissingError(Exception):
    """What the settings ask for is not there: a library, or a number in the host's name."""


def plan(settings: Settings, discovered: Sequence[Found] = ()) -> pipeline.Plan:
    """Return what the pipeline needs to know."""
    return pipeline.Plan(
        detection=detectors.DetectionPlan(false_alarms_per_month=settings.detection.false_alarms_per_month),
        limits=streams.Limits(
            scrape_interval=settings.scrape.interval,
            forget_seconds=settings.discovery.forget_after,
            streams_per_target=settings.scrape.max_streams_per_target,
        ),
        declared={each.name: _found_declared(each) for each in discovered}
        | {target.label: _declared(target) for target in settings.targets},
        told=_told(settings.economics),
        pinned=_pinned(settings.references),
    )


def _pinned(references: Sequence[ReferenceSettings]) -> dict[str, tuple[Pinned, ...]]:
    """Return what is pinned, by the names of the models."""
    found: dict[str, tuple[Pinned, ...]] = {}
    for each in references:
        pin = Pinned(
            mal=each.expected_mal,
            tolerance=each.tolerance,
            source=each.source,
            marginal=each.marginal,
            num_speculative_tokens=each.num_speculative_tokens or 0,
        )
        found[each.model] = (*found.get(each.model, ()), pin)
    return found


def _told(given: Economics) -> dict[str, Told]:
    """Return what is told of each model, and under "" of all others. Raises MissingError for a wrong file."""
    told = {"": _told_of(given, given)}
    told |= {each.model: _told_of(each, given) for each in given.models}
    for file in given.calibrations:
        try:
            name, steps = side_by_side.plain_steps(json.loads(Path(file).read_text(encoding="utf-8")))
        except (OSError, ValueError, RecursionError, AttributeError) as error:
            raise MissingError(f"economics.calibrations: {file}: {error}") from error
        told[name] = replace(told.get(name, told[""]), calibrated=steps)
    return told


def _told_of(own: ModelEconomics | Economics, common: Economics) -> Told:
    gpus = own.gpus_per_replica or common.gpus_per_replica
    cost = common.gpu_hour_cost if own.gpu_hour_cost is None else own.gpu_hour_cost
    plain = common.plain_step_seconds if own.plain_step_seconds is None else own.plain_step_seconds
    return Told(_or_unknown(plain), prices=costs.Prices(gpus, _or_unknown(cost)))


def _or_unknown(number: float | None) -> float:
    return math.nan if number is None else number


def scrape_targets(settings: Settings, discovered: Sequence[Found] = ()) -> list[targets.Target]:
    """Return this shard's targets to scrape; a target's own token stands before the token for all."""
    own = shard(settings)
    listed = [_target(settings, target) for target in settings.targets]
    every = [*listed, *(_found_target(settings, each) for each in discovered)]
    return [target for target in every if own.owns(target.name)]


def shard(settings: Settings) -> shards.Shard:
    """Return which part of the targets is ours; raises MissingError where the host's name does not say it."""
    try:
        return shards.told(settings.shards.ordinal, settings.shards.total, socket.gethostname())
    except ValueError as error:
        raise MissingError(f"shards.ordinal: {error}") from error


def query_reader(settings: Settings) -> GridReader | None:
    """Return what reads this shard's counters from a query API, None where the settings name none."""
    if not settings.prometheus.url:
        return None
    from monitor.sources import prometheus  # noqa: PLC0415

    return prometheus.GridReader(queries_wanted(settings), time.time, owned=shard(settings).owns)


def queries_wanted(settings: Settings) -> Wanted:
    """Return what to ask of the query API."""
    from monitor.sources import prometheus, queries  # noqa: PLC0415

    given = settings.prometheus
    return prometheus.Wanted(
        server=queries.QueryServer(
            url=given.url,
            headers=tuple((name, value.get_secret_value()) for name, value in given.headers.items()),
            bearer_token=given.bearer_token.get_secret_value(),
            bearer_token_file=given.bearer_token_file,
            tls=_tls(given.tls),
            timeout=given.timeout,
            body_limit=given.body_limit,
        ),
        interval=settings.scrape.interval,
        offset=given.offset,
        lookback=given.lookback,
        selector=given.selector,
        target_labels=given.target_labels,
    )


def notifications(settings: Settings) -> notify.NotifyPlan:
    """Return whom to tell of events, and what."""
    wanted = settings.notify
    return notify.NotifyPlan(
        receivers=(
            *(_receiver("alertmanager", each) for each in wanted.alertmanagers),
            *(_receiver("webhook", each) for each in wanted.webhooks),
        ),
        min_severity=wanted.min_severity,
        resend_seconds=wanted.resend_interval,
        site=notify.LinkBases(settings.web.external_url.rstrip("/"), wanted.runbooks_url.rstrip("/")),
    )


def providers(settings: Settings) -> list[Provider]:
    """Return who finds targets by these settings; raises MissingError where a library is not installed.

    The modules are imported here: a monitor that looks for nothing does not pay for them.
    """
    wanted = settings.discovery
    made: list[Provider] = []
    if wanted.files:
        from monitor.sources.discovery import target_files  # noqa: PLC0415

        made.append(target_files.Files(wanted.files, wanted.interval))
    made += [_from_url(settings, source) for source in wanted.http]
    if wanted.dns:
        _require("dns")
        from monitor.sources.discovery import dns  # noqa: PLC0415

        made.append(dns.SrvNames(wanted.dns, wanted.interval))
    made += [each for pods in wanted.kubernetes for each in _from_cluster(pods)]
    return made


def _from_url(settings: Settings, source: HttpDiscovery) -> Provider:
    from monitor.sources.discovery import target_urls  # noqa: PLC0415

    interval = settings.discovery.interval
    page = targets.Target(
        name=f"discovery {targets.shown(source.url)}",
        url=source.url,
        headers=(("Accept", "application/json"),),
        bearer_token=source.bearer_token.get_secret_value() or None,
        bearer_token_file=source.bearer_token_file or None,
        tls=_tls(source.tls),
        interval=interval,
        timeout=min(LONGEST_ANSWER_SECONDS, interval * 2 / 3),
    )
    return target_urls.Url(page, time.time)


def _from_cluster(pods: KubernetesDiscovery) -> list[Provider]:
    _require("kubernetes")
    from monitor.sources.discovery import kubernetes  # noqa: PLC0415
    from monitor.sources.discovery.pods import PodPage  # noqa: PLC0415

    page = PodPage(pods.port, pods.path, pods.scheme)
    return [
        kubernetes.Pods(pods.selector, page, namespace, pods.kubeconfig)
        for namespace in pods.namespaces or ("",)
    ]


def _require(extra: str) -> None:
    module = EXTRAS[extra]
    if importlib.util.find_spec(module) is None:
        install = f"expected it: pip install 'specmon[{extra}]'"
        raise MissingError(f"discovery.{extra}: the library {module!r} is not installed, {install}")


def _receiver(kind: Literal["alertmanager", "webhook"], receiver: ReceiverSettings) -> notify.Receiver:
    return notify.Receiver(
        kind=kind,
        name=receiver.label,
        url=receiver.url,
        headers=tuple((name, value.get_secret_value()) for name, value in receiver.headers.items()),
        bearer_token=receiver.bearer_token.get_secret_value(),
        bearer_token_file=receiver.bearer_token_file,
        tls=_tls(receiver.tls),
    )


def _declared(target: TargetSettings) -> regimes.Declared:
    return regimes.Declared(
        engine=target.engine,
        model_name=target.model,
        draft_model=target.draft_model,
        method=target.method,
        num_speculative_tokens=target.num_speculative_tokens or 0,
        labels=tuple(sorted(target.labels.items())),
    )


def _found_declared(target: Found) -> regimes.Declared:
    return regimes.Declared(
        draft_model=target.draft_model,
        method=target.method,
        num_speculative_tokens=target.num_speculative_tokens,
        labels=target.labels,
        facts=target.facts,
    )


def _found_target(settings: Settings, target: Found) -> targets.Target:
    scrape = settings.scrape
    return targets.Target(
        name=target.name,
        url=target.url,
        labels=target.labels,
        bearer_token=scrape.bearer_token.get_secret_value() or None,
        bearer_token_file=scrape.bearer_token_file or None,
        interval=scrape.interval,
        timeout=scrape.timeout,
        body_limit=scrape.body_limit,
    )


def _target(settings: Settings, target: TargetSettings) -> targets.Target:
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
        tls=_tls(target.tls),
        interval=scrape.interval,
        timeout=scrape.timeout,
        body_limit=scrape.body_limit,
    )


def _tls(tls: TlsSettings) -> targets.Tls | None:
    made = targets.Tls(
        ca_file=tls.ca_file or None,
        cert_file=tls.cert_file or None,
        key_file=tls.key_file or None,
        server_name=tls.server_name or None,
        insecure_skip_verify=tls.insecure_skip_verify,
    )
    return None if made == targets.Tls() else made
