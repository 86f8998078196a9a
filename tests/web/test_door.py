"""Who gets in, on real sockets: certificates, passwords, tokens, and what one client can hold."""

from __future__ import annotations

import asyncio
import ssl
from typing import TYPE_CHECKING

import aiohttp
import pytest

from monitor import settings
from monitor.web import app
from monitor.web.door import guard, listening, webfile
from tests.web import door

if TYPE_CHECKING:
    from pathlib import Path

USERS = f"basic_auth_users: {{alice: '{door.HASH}'}}\n"
RIGHT = ("alice", door.PASSWORD)
PATHS = ("/", "/metrics", "/report", "/targets", "/config", "/-/healthy", "/-/ready", "/api/v1/streams")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Where the web configuration file of a test is."""
    return tmp_path / "web.yml"


def write(file: Path, text: str) -> None:
    """Write a file."""
    file.write_text(text)


async def status(
    address: tuple[str, int],
    path: str = "/",
    method: str = "GET",
    auth: tuple[str, str] | None = None,
    **more: object,
) -> int:
    """The status of one answer, its security headers checked."""
    if auth is not None:
        own = {"Authorization": aiohttp.encode_basic_auth(*auth)}
        more["headers"] = {**more.get("headers", {}), **own}  # type: ignore[dict-item]
    url = f"http://{address[0]}:{address[1]}{path}"
    async with (
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(force_close=True)) as session,
        session.request(method, url, **more) as answer,  # type: ignore[arg-type]
    ):
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Server"] == "specmon"
        return answer.status


@pytest.mark.parametrize("path", [*PATHS, "/static/report.css", "/nowhere", "/probe?target=a"])
async def test_every_path_asks_for_the_password(file: Path, path: str) -> None:
    """With users, nothing is shown to who is none: no header, a wrong password, a wrong user, another scheme."""
    write(file, USERS)
    async with door.behind(str(file)) as address:
        strangers = [None, ("alice", "wrong"), ("bob", door.PASSWORD)]
        assert [await status(address, path, auth=each) for each in strangers] == [401] * 3
        for header in ("Basic", "Basic !!", "Basic YQ==", "Bearer x", f"Basic {'A' * 4000}"):
            assert await status(address, path, headers={"Authorization": header}) == 401
        assert await status(address, path, auth=RIGHT) in {200, 404, 503}


async def test_the_file_is_read_again_and_a_bad_one_is_not_taken(
    file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Users, limits and headers change without a restart; a file that is wrong keeps what was, said once."""
    write(file, USERS)
    async with door.behind(str(file)) as address:
        assert await status(address) == 401
        write(file, "basic_auth_users: {alice: plain}\n")
        assert [await status(address) for _ in range(3)] == [401] * 3
        assert await status(address, auth=RIGHT) == 200
        assert len([each for each in caplog.messages if "not taken" in each]) == 1
        assert "plain" not in caplog.text
        write(file, "http_server_config: {headers: {X-Frame-Options: SAMEORIGIN}}\n")
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"http://{address[0]}:{address[1]}/") as answer,
        ):
            assert (answer.status, answer.headers["X-Frame-Options"]) == (200, "SAMEORIGIN")
        write(file, "rate_limit: {burst: 2, interval: 1h}\n")
        assert [await status(address) for _ in range(3)] == [200, 200, 429]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("basic_auth_user: {}\n", "basic_auth_user: Extra inputs are not permitted"),
        ("basic_auth_users: {a: secret}\n", "basic_auth_users.a: expected a bcrypt hash"),
        ("tls_server_config: {cert_file: c}\n", "tls_server_config: expected cert_file and key_file"),
        ("tls_server_config: {cert_file: c, key_file: k}\n", "tls_server_config: c, k cannot be used"),
        (
            "tls_server_config: {client_auth_type: RequireAnyClientCert}\n",
            "client_auth_type: Input should be",
        ),
        ("http_server_config: {headers: {X-Other: a}}\n", "http_server_config.headers.X-Other"),
        ('http_server_config: {headers: {X-Frame-Options: "a\\r\\nb: c"}}\n', "expected one line"),
        ("rate_limit: {burst: -1}\n", "rate_limit.burst"),
        ("[]\n", "web.yml: Input should be a valid dictionary"),
        ("a: [\n", "not YAML"),
    ],
)
def test_a_wrong_file_is_refused_with_its_key(file: Path, text: str, said: str) -> None:
    """What is not understood is never passed over, and no secret is in the sentence."""
    write(file, text)
    with pytest.raises(settings.Invalid) as refusal:
        webfile.WebFile(str(file))
    assert said in str(refusal.value)
    assert "secret" not in str(refusal.value)


async def test_tls_and_client_certificates(tmp_path: Path, file: Path) -> None:
    """Only who shows a certificate of our authority, with an expected name, is answered; a new one is taken up."""
    door.authority(tmp_path)
    for name, san in (("server", "IP:127.0.0.1"), ("prom", "DNS:prometheus"), ("other", "DNS:other")):
        door.certificate(tmp_path, name, san)
    write(
        file,
        "tls_server_config: {cert_file: server.pem, key_file: server.key, client_ca_file: ca.pem,"
        " client_auth_type: RequireAndVerifyClientCert, client_allowed_sans: [prometheus]}\n",
    )

    def client(name: str = "") -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=str(tmp_path / "ca.pem"))
        if name:
            context.load_cert_chain(tmp_path / f"{name}.pem", tmp_path / f"{name}.key")
        return context

    async def ask(address: tuple[str, int], context: ssl.SSLContext) -> int:
        url = f"https://{address[0]}:{address[1]}/-/healthy"
        async with aiohttp.ClientSession() as session, session.get(url, ssl=context) as answer:
            return answer.status

    async with door.behind(str(file)) as address:
        assert await ask(address, client("prom")) == 200
        assert await ask(address, client("other")) == 403
        with pytest.raises(aiohttp.ClientError):
            await ask(address, client())
        door.certificate(tmp_path, "server", "IP:127.0.0.1,DNS:renewed")
        door.authority(tmp_path)  # another authority: what the old one signed is not trusted any more
        with pytest.raises(aiohttp.ClientError):
            await ask(address, client("prom"))
        door.certificate(tmp_path, "server", "IP:127.0.0.1")
        door.certificate(tmp_path, "prom", "DNS:prometheus")
        assert await ask(address, client("prom")) == 200
        with pytest.raises(aiohttp.ClientError):
            await status(address)


async def test_what_changes_something_needs_the_token(tmp_path: Path, file: Path) -> None:
    """No POST without the token, nor with a password alone; the token's file is read again."""
    done: list[str] = []

    async def reload() -> str:
        done.append("once")
        return ""

    token = tmp_path / "token"
    write(token, "old\n")
    write(file, USERS)
    bearer = {"Authorization": f"Bearer {door.TOKEN}"}
    async with door.behind(reload=reload) as address:
        assert await status(address, "/-/reload", "POST") == 401
        assert await status(address, "/-/reload", "POST", headers={"Authorization": "Bearer "}) == 401
        assert await status(address, "/-/reload", "POST", headers=bearer) == 200
        for hostile in (
            {"Origin": "https://evil.example"},
            {"Sec-Fetch-Site": "cross-site"},
            {"Origin": "null"},
        ):
            assert await status(address, "/-/reload", "POST", headers=bearer | hostile) == 403
    async with door.behind(str(file), guard.Rules(token_file=str(token)), reload=reload) as address:
        assert await status(address, "/-/reload", "POST", auth=RIGHT) == 401
        header = {guard.TOKEN_HEADER: "old"}
        assert await status(address, "/-/reload", "POST", headers=header) == 401
        assert await status(address, "/-/reload", "POST", auth=RIGHT, headers=header) == 200
        write(token, "new\n")
        assert await status(address, "/-/reload", "POST", auth=RIGHT, headers=header) == 401
    async with door.behind("", guard.Rules(), reload=reload) as address:
        assert await status(address, "/-/reload", "POST", headers=bearer) == 401
    assert len(done) == 2


async def test_only_our_own_names_are_answered() -> None:
    """A page of a stranger whose name points here reads nothing; addresses and known names are ours."""
    async with door.behind("", guard.Rules(hosts=frozenset({"localhost", "specmon.example"}))) as address:
        hosts = {
            "localhost:1": 200,
            "specmon.example": 200,
            "127.0.0.1": 200,
            "[::1]:9": 200,
            "evil.example": 421,
        }
        assert {host: await status(address, headers={"Host": host}) for host in hosts} == hosts


async def test_sizes_are_bounded() -> None:
    """Long queries, many parameters and large bodies are refused before anything is done with them."""
    async with door.behind() as address:
        assert await status(address, "/report?" + "a" * 3000) == 414
        assert await status(address, "/report?" + "&".join(f"a{n}=1" for n in range(30))) == 414
        token = {"Authorization": f"Bearer {door.TOKEN}"}
        assert await status(address, "/-/reload", "POST", headers=token, data=b"x" * 100_000) == 413


@pytest.mark.parametrize(
    "text",
    [
        b"\x16\x03\x01\x02\x00\x01\n\n",
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET / HTTP/1.1\r\nHo\x00st: a\r\n\r\n",
    ],
)
async def test_what_is_no_http_is_answered_with_our_headers(text: bytes) -> None:
    """A bare 400 has the same headers as every page, and repeats nothing of what was sent."""
    async with door.behind() as address:
        answer = await door.raw(address, text)
    assert answer.startswith((b"HTTP/1.0 400", b"HTTP/1.1 400"))
    head, _, body = answer.partition(b"\r\n\r\n")
    assert all(f"\r\n{name}: {value}".encode() in head for name, value in app.HEADERS.items())
    assert body == b"this is no HTTP request\n"


async def test_a_thousand_idle_connections_keep_nobody_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one that rests longest gives way; one that brings no request is ended after its time."""
    monkeypatch.setattr(listening, "MOST_CONNECTIONS", 50)
    monkeypatch.setattr(listening, "HEAD_SECONDS", 1.0)
    async with door.behind() as address:
        idle = [await asyncio.open_connection(*address) for _ in range(200)]
        assert await status(address, "/-/healthy") == 200
        slow = await asyncio.open_connection(*address)
        slow[1].write(b"GET / HTTP/1.1\r\nHost: a\r\n")
        ended = [asyncio.wait_for(reader.read(), 20) for reader, _ in (*idle, slow)]
        results = await asyncio.gather(*ended, return_exceptions=True)
        assert not any(isinstance(each, TimeoutError) for each in results)
        for _, writer in (*idle, slow):
            writer.close()


async def test_a_flood_of_passwords_is_cut_short(file: Path) -> None:
    """Beyond a few, wrong passwords do not wait for the thread that looks at them; who is known gets in at once."""
    write(file, USERS.replace("$2b$04", "$2b$12"))
    async with door.behind(str(file)) as address:
        wrong = [status(address, auth=("alice", str(number))) for number in range(40)]
        assert set(await asyncio.gather(*wrong)) == {401, 503}
