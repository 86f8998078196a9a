"""Tells Alertmanagers and webhooks of events, for those who have no Prometheus rules that do.

An event becomes one notice per receiver, kept in the store with the event itself and delivered until the
receiver has accepted it: a restart or an outage delays it and loses nothing.
"""

from __future__ import annotations

from monitor.notify.notifier import Notifier
from monitor.notify.plan import LinkBases, NotifyPlan, Receiver

__all__ = ["LinkBases", "Notifier", "NotifyPlan", "Receiver"]
