"""Every answer that a server can give becomes a page or a failure with its reason, in time."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import socket
import ssl
import subprocess
import time
import tracemalloc
import zlib
from typing import TYPE_CHECKING

import pytest

from monitor.sources import client, http
from tests.sources.servers import PAGE, Request, answer, serving

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from monitor.core.pages.scrapes import Scrape
    from tests.sources.servers import Handler

NOW = 1_700_000_000.0


async def look(url: str, **settings: object) -> Scrape:
    """One look at a URL at a fixed time."""
    return await http.fetch_once(http.Target("t", url, **settings), lambda: NOW)  # type: ignore[arg-type]


@contextlib.asynccontextmanager
async def scraping() -> AsyncIterator[http.Scraper]:
    """A running scraper without targets of its own."""
    scraper = http.Scraper([], print, clock=lambda: NOW)
    running = asyncio.create_task(scraper.run())
    await asyncio.sleep(0)
    yield scraper
    await scraper.stop()
    await running


def reason(scrape: Scrape) -> str | None:
    """The reason of a failure, None of a page."""
    assert (scrape.failure is None) is (scrape.body is not None)
    return scrape.failure.reason if scrape.failure else None


def free_port() -> int:
    """A port where nothing listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


async def test_a_page_is_read() -> None:
    """The body comes as it was sent, with the time of the request and how long it took."""
    async with serving(answer(content_type="text/plain; version=1.0.0")) as server:
        scrape = await look(server.url)
    assert (scrape.target, scrape.at, scrape.body, scrape.failure) == ("t", NOW, PAGE, None)
    assert scrape.duration > 0
    headers = server.requests[0].headers
    assert headers["accept"].startswith("text/plain")
    assert headers["accept-encoding"] == "identity"
    assert headers["user-agent"].startswith("specmon/")
    assert headers["x-prometheus-scrape-timeout-seconds"] == "10"


async def test_a_url_with_a_path_is_asked_as_it_is() -> None:
    """What the operator wrote is not second-guessed."""
    async with serving(answer()) as server:
        assert reason(await look(server.url.removesuffix("/metrics") + "/prometheus/metrics?x=1")) is None
    assert [request.path for request in server.requests] == ["/prometheus/metrics?x=1"]


ANSWERS = {
    "right page, wrong type": (answer(content_type="text/html"), None),
    "empty": (answer(b""), None),
    "401": (answer(status="401 Unauthorized"), "unauthorised"),
    "403": (answer(status="403 Forbidden"), "unauthorised"),
    "404": (answer(status="404 Not Found"), "http_status"),
    "503": (answer(status="503 Service Unavailable"), "http_status"),
    "204": (answer(b"", status="204 No Content"), "http_status"),
    "gzip": (answer(gzip.compress(PAGE), content_encoding="gzip"), None),
    "deflate": (answer(zlib.compress(PAGE), content_encoding="deflate"), None),
    "gzip in gzip": (answer(gzip.compress(gzip.compress(PAGE)), content_encoding="gzip, gzip"), "encoding"),
    "unknown packing": (answer(content_encoding="br"), "encoding"),
    "not packed": (answer(content_encoding="gzip"), "encoding"),
    "packed page cut off": (answer(gzip.compress(PAGE * 9)[:-9], content_encoding="gzip"), "encoding"),
    "something behind the packed page": (
        answer(gzip.compress(PAGE) + b"x", content_encoding="gzip"),
        "encoding",
    ),
    "redirect to another host": (answer(status="302 Found", location="http://127.0.0.1:1/login"), "redirect"),
    "redirect to nowhere": (answer(status="302 Found"), "redirect"),
    "redirect to itself": (answer(status="302 Found", location="/metrics"), "redirect"),
    "longer than allowed": (answer(bytes(5001)), "too_large"),
    "as long as allowed": (answer(bytes(5000)), None),
}


@pytest.mark.parametrize("case", ANSWERS)
async def test_every_answer_has_its_reason(case: str) -> None:
    """What is no page is a failure; whether a body is a metrics page is for its reader to say."""
    handler, expected = ANSWERS[case]
    async with serving(handler) as server:
        scrape = await look(server.url, body_limit=5000)
    assert reason(scrape) == expected
    if scrape.failure:
        assert scrape.failure.detail.startswith(f"{server.url}: ")


async def test_a_detail_says_what_was_read_and_expected() -> None:
    """An operator can act on the sentence."""
    async with serving(answer(status="503 Service Unavailable")) as server:
        scrape = await look(server.url)
    assert scrape.failure is not None
    assert scrape.failure.detail == f"{server.url}: read status 503 Service Unavailable, expected 200"


async def drip(_: Request, writer: asyncio.StreamWriter) -> None:
    """Send the page byte by byte, without an end in sight."""
    writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
    while True:
        writer.write(b"1\r\n#\r\n")
        await writer.drain()
        await asyncio.sleep(0.01)


async def silence(_: Request, __: asyncio.StreamWriter) -> None:
    """Take the request and say nothing."""
    await asyncio.Event().wait()


@pytest.mark.parametrize("handler", [drip, silence], ids=["drip feed", "silence"])
async def test_the_deadline_is_for_the_whole_page(handler: Handler) -> None:
    """Bytes that keep coming do not move the deadline (httpx#1450)."""
    async with serving(handler) as server, asyncio.timeout(20):
        scrape = await look(server.url, timeout=0.2)
    assert reason(scrape) == "timeout"
    assert scrape.failure is not None
    assert scrape.failure.detail.endswith("no whole page within 0.2s")


async def endless(_: Request, writer: asyncio.StreamWriter) -> None:
    """Send chunks for as long as they are taken."""
    writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
    while True:
        writer.write(b"1000\r\n" + b"#" * 4096 + b"\r\n")
        await writer.drain()


def bomb() -> bytes:
    """256 MiB of comment in 256 KiB."""
    packing = zlib.compressobj(9, wbits=31)
    return b"".join(packing.compress(b"#" * (1 << 20)) for _ in range(256)) + packing.flush()


async def test_a_packed_page_is_bounded_as_it_is_unpacked() -> None:
    """A small body that stands for gigabytes is given up at the limit (scrapy#3270)."""
    async with serving(answer(bomb(), content_encoding="gzip")) as server:
        tracemalloc.start()
        scrape = await look(server.url, body_limit=1 << 20)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert reason(scrape) == "too_large"
    assert scrape.failure is not None
    assert scrape.failure.detail.endswith("expected at most 1048576 bytes (body_limit)")
    assert peak < 16 << 20


async def test_a_page_without_a_length_is_bounded() -> None:
    """An endless page is given up at the limit, long before the deadline."""
    async with serving(endless) as server:
        scrape = await look(server.url, body_limit=1 << 20)
    assert reason(scrape) == "too_large"


async def close_early(_: Request, writer: asyncio.StreamWriter) -> None:
    """Promise more than is sent."""
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 5000\r\n\r\n" + PAGE)
    await writer.drain()
    writer.close()


async def no_http(_: Request, writer: asyncio.StreamWriter) -> None:
    """Speak something else."""
    writer.write(b"SSH-2.0-OpenSSH_9.2\r\n\r\n")
    await writer.drain()
    writer.close()


@pytest.mark.parametrize("handler", [close_early, no_http], ids=["cut off", "not HTTP"])
async def test_a_broken_connection_is_one(handler: Handler) -> None:
    """A page that ends early is never taken for a whole one."""
    async with serving(handler) as server:
        assert reason(await look(server.url)) == "connection"


async def test_nothing_listens() -> None:
    """A refused connection says so: an engine that is still loading its model."""
    scrape = await look(f"http://127.0.0.1:{free_port()}")
    assert reason(scrape) == "connection"
    assert scrape.failure is not None
    assert "refused" in scrape.failure.detail


async def test_a_host_that_does_not_exist() -> None:
    """A name that cannot be resolved is not a refused connection."""
    assert reason(await look("http://engine.invalid:8000")) == "dns"


async def test_plain_http_is_not_tls() -> None:
    """An https URL to a plain port is a TLS failure."""

    async def answer_at_once(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()
        await writer.wait_closed()

    listening = await asyncio.start_server(answer_at_once, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    assert reason(await look(f"https://127.0.0.1:{port}")) == "tls"
    listening.close()


async def test_credentials_go_where_they_belong(tmp_path: Path) -> None:
    """Headers and token are sent; a token file is read again when it changes; none is an unauthorised target."""
    token = tmp_path / "token"
    token.write_text("first\n")
    async with serving(answer()) as server, scraping() as scraper:
        target = http.Target("t", server.url, headers=(("X-Tenant", "a"),), bearer_token_file=str(token))
        await scraper.fetch(target)
        token.write_text("second token")
        await scraper.fetch(target)
        token.unlink()
        scrape = await scraper.fetch(target)
    sent = [(request.headers["authorization"], request.headers["x-tenant"]) for request in server.requests]
    assert sent == [("bearer first", "a"), ("bearer second token", "a")]
    assert reason(scrape) == "unauthorised"
    assert scrape.failure is not None
    assert f"the token file {token} cannot be read" in scrape.failure.detail


async def test_secrets_are_not_said() -> None:
    """No message and no representation shows a password or token (prometheus#4604)."""
    url = f"http://user:hunter2@127.0.0.1:{free_port()}/metrics?token=hunter2"
    target = http.Target("t", url, headers=(("Authorization", "Basic hunter2"),), bearer_token="hunter2")
    scrape = await http.fetch_once(target, lambda: NOW)
    assert scrape.failure is not None
    assert "hunter2" not in scrape.failure.detail
    assert "/metrics?token=…" in scrape.failure.detail


async def test_a_redirect_within_the_host_is_followed_and_remembered() -> None:
    """SGLang sends `/metrics` to `/metrics/`: the second look goes there at once."""

    async def handle(request: Request, writer: asyncio.StreamWriter) -> None:
        moved = answer(b"", "307 Temporary Redirect", location="/metrics/")
        await (moved if request.path == "/metrics" else answer())(request, writer)

    async with serving(handle) as server, scraping() as scraper:
        target = http.Target("t", server.url, beside=(http.Beside("/version"),))
        first = await scraper.fetch(target)
        second = await scraper.fetch(target)
    assert (first.body, second.body) == (PAGE, PAGE)
    asked = [request.path for request in server.requests]
    assert asked == ["/metrics", "/metrics/", "/version", "/metrics/", "/version"]


async def test_pages_beside_are_optional() -> None:
    """A page beside that does not answer is absent, and the target's own page is there."""

    async def handle(request: Request, writer: asyncio.StreamWriter) -> None:
        known = request.path in ("/metrics", "/v1/loads")
        await (answer() if known else answer(b"", "404 Not Found"))(request, writer)

    async with serving(handle) as server:
        scrape = await look(server.url, beside=(http.Beside("/version"), http.Beside("/v1/loads", 0)))
    assert (scrape.body, scrape.beside) == (PAGE, {"/v1/loads": PAGE})


async def test_a_page_beside_that_hangs_does_not_cost_the_page() -> None:
    """All pages share one deadline; what came before it is kept."""

    async def handle(request: Request, writer: asyncio.StreamWriter) -> None:
        await (answer() if request.path == "/metrics" else silence)(request, writer)

    async with serving(handle) as server:
        scrape = await look(server.url, timeout=0.2, beside=(http.Beside("/v1/loads", 0),))
    assert (scrape.body, scrape.beside) == (PAGE, {})


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """A certificate for 127.0.0.1 that signs itself, and its key."""
    folder = tmp_path_factory.mktemp("tls")
    files = (str(folder / "cert.pem"), str(folder / "key.pem"))
    options = "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=engine -addext subjectAltName=IP:127.0.0.1"
    command = ["openssl", *options.split(), "-out", files[0], "-keyout", files[1]]
    subprocess.run(command, check=True, capture_output=True)
    return files


async def test_tls_is_checked(certificate: tuple[str, str]) -> None:
    """An unknown certificate is refused; its authority or the wish not to look makes it good."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    async with serving(answer(), context) as server:
        assert reason(await look(server.url)) == "tls"
        assert reason(await look(server.url, tls=http.Tls(ca_file=certificate[0]))) is None
        assert reason(await look(server.url, tls=http.Tls(insecure_skip_verify=True))) is None
        other = http.Tls(ca_file=certificate[0], server_name="other")
        assert reason(await look(server.url, tls=other)) == "tls"
        scrape = await look(server.url, tls=http.Tls(ca_file="/absent.pem"))
    assert scrape.failure is not None
    assert "a certificate file cannot be used" in scrape.failure.detail


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"timeout": 15.0}, "timeout 15s, interval 15s; expected a timeout above 0 and below the interval"),
        ({"timeout": 0.0}, "timeout 0s, interval 15s; expected a timeout above 0 and below the interval"),
        ({"url": "ftp://a/metrics"}, "'ftp://a/metrics' is no http:// or https:// URL with a host"),
        ({"url": "localhost:8000"}, "'localhost:8000' is no http:// or https:// URL with a host"),
    ],
    ids=["timeout", "no timeout", "scheme", "no scheme"],
)
def test_a_target_that_cannot_work_is_refused(settings: dict[str, object], message: str) -> None:
    """The message names the target, what was read and what was expected."""
    with pytest.raises(ValueError) as refusal:
        http.Target(**({"name": "a", "url": "http://a"} | settings))  # type: ignore[arg-type]
    assert str(refusal.value) == f"target a: {message}"


async def test_a_page_beside_is_small() -> None:
    """What stands beside the metrics is kept, so a huge one is left out."""

    async def handle(request: Request, writer: asyncio.StreamWriter) -> None:
        body = PAGE if request.path == "/metrics" else bytes(client.LARGEST_BESIDE_BYTES + 1)
        await answer(body)(request, writer)

    async with serving(handle) as server, asyncio.timeout(20):
        target = http.Target("t", server.url, beside=(http.Beside("/version"),))
        scrape = await http.fetch_once(target, time.time)
    assert (scrape.body, dict(scrape.beside)) == (PAGE, {})
