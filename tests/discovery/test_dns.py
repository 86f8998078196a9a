"""Targets from SRV records, against a real name server on a free loopback port."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, cast

import dns.flags
import dns.message
import dns.rcode
import dns.rrset

from monitor.sources.discovery.dns import SrvNames
from tests.discovery import listening

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

INTERVAL = 0.05
NAME = "_http._tcp.vllm.llm.svc.cluster.local."


class NameServer(asyncio.DatagramProtocol):
    """Answers with the SRV `records` of NAME; `code` is its mood."""

    def __init__(self, records: Sequence[str]) -> None:
        self.records = list(records)
        self.code = dns.rcode.NOERROR
        self.address = ("", 0)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Remember where to answer."""
        self._transport = cast("asyncio.DatagramTransport", transport)
        self.address = transport.get_extra_info("sockname")

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        """Answer one query."""
        query = dns.message.from_wire(data)
        reply = dns.message.make_response(query)
        reply.flags |= dns.flags.RA
        known = query.question[0].name.to_text() == NAME
        reply.set_rcode(self.code if known else dns.rcode.NXDOMAIN)
        if known and self.records and self.code == dns.rcode.NOERROR:
            reply.answer.append(dns.rrset.from_text(NAME, 5, "IN", "SRV", *self.records))
        self._transport.sendto(reply.to_wire(), addr)


@contextlib.asynccontextmanager
async def serving(*records: str) -> AsyncIterator[NameServer]:
    """A name server with these records."""
    loop = asyncio.get_running_loop()
    transport, server = await loop.create_datagram_endpoint(
        lambda: NameServer(records), local_addr=("127.0.0.1", 0)
    )
    try:
        yield server
    finally:
        transport.close()


async def test_records_are_followed() -> None:
    """Each record is a target; new ones come, old ones go, and a name without records has no targets."""
    async with serving("0 50 8000 vllm-0.vllm.llm.svc.cluster.local.") as server:
        provider = SrvNames((NAME, "_none._tcp.example."), INTERVAL, (server.address,))
        async with listening.to(provider) as listener:
            (found,) = await listener.names("vllm-0.vllm.llm.svc.cluster.local:8000")
            assert found.url == "http://vllm-0.vllm.llm.svc.cluster.local:8000/metrics"
            server.records += ["0 50 8001 b.example.", "0 50 8000 a.example."]
            await listener.names("a.example:8000", "b.example:8001", "vllm-0.vllm.llm.svc.cluster.local:8000")
            server.records.clear()
            await listener.names()
            server.code = dns.rcode.NXDOMAIN
            assert await listener.next() == ()


async def test_a_server_that_fails_takes_nothing_away() -> None:
    """A server failure is told and the records of before stay."""
    async with contextlib.AsyncExitStack() as stack:
        server = await stack.enter_async_context(serving("0 50 8000 a.example."))
        listener = await stack.enter_async_context(
            listening.to(SrvNames((NAME,), INTERVAL, (server.address,)))
        )
        await listener.names("a.example:8000")
        server.code = dns.rcode.SERVFAIL
        reason = await listener.failure()
        assert reason.startswith(f"{NAME}: no answer (")
        assert reason.endswith("), expected SRV records")
        await listener.names("a.example:8000")
