"""Targets from SRV records, such as those of a headless Service: each record is one target.

With dnspython: asyncio's own resolver knows addresses only.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

import dns.asyncresolver
import dns.exception
import dns.name
import dns.resolver
from dns.rdtypes.IN.SRV import SRV

from monitor.sources.discovery import Failed, Found

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

LONGEST_ANSWER_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class SrvNames:
    """The SRV records of `names`, asked for every `interval` seconds.

    `servers` are (address, port) of the name servers to ask; empty: those of /etc/resolv.conf.
    """

    names: tuple[str, ...]
    interval: float
    servers: tuple[tuple[str, int], ...] = ()
    kind: str = "dns"

    async def news(self) -> AsyncGenerator[tuple[Found, ...] | Failed, None]:
        """Tell the targets of all names; a name whose server does not answer keeps those that it had."""
        kept: dict[str, tuple[Found, ...]] = {}
        while True:
            looks = await asyncio.gather(*(self._look(name) for name in self.names))
            for name, look in zip(self.names, looks, strict=True):
                if isinstance(look, Failed):
                    yield look
                else:
                    kept[name] = look
            if kept:
                yield tuple(target for name in self.names for target in kept.get(name, ()))
            await asyncio.sleep(self.interval)

    async def _look(self, name: str) -> tuple[Found, ...] | Failed:
        try:
            answer = await self._resolver().resolve(
                name, "SRV", lifetime=LONGEST_ANSWER_SECONDS, raise_on_no_answer=False, search=True
            )
        except dns.resolver.NXDOMAIN:
            # What a headless Service without ready pods answers; a cluster scaled to zero has no targets.
            return ()
        except dns.exception.DNSException as error:
            return Failed(f"{name}: no answer ({error}), expected SRV records")
        records = [record for record in answer if isinstance(record, SRV)] if answer.rrset else []
        return tuple(sorted((_target(record) for record in records), key=lambda target: target.name))

    def _resolver(self) -> dns.asyncresolver.Resolver:
        """Return a resolver for one look: it reads /etc/resolv.conf anew, and caches nothing."""
        resolver = dns.asyncresolver.Resolver(configure=not self.servers)
        if self.servers:
            resolver.nameservers = [address for address, _ in self.servers]
            resolver.nameserver_ports = dict(self.servers)
        return resolver


def _target(record: SRV) -> Found:
    address = f"{record.target.to_text(omit_final_dot=True)}:{record.port}"
    return Found(name=address, url=f"http://{address}/metrics")
