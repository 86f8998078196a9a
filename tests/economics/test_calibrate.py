"""`specmon calibrate` against real servers on the loopback."""

from __future__ import annotations

import asyncio
import importlib.util
import json
from typing import TYPE_CHECKING

import pytest
from aiohttp import web

from monitor.__main__ import main
from tests import real_engine

if TYPE_CHECKING:
    from pathlib import Path

MISSING = [name for name in ("xllamacpp", "gguf") if importlib.util.find_spec(name) is None]
ARGUMENTS = ("--model", real_engine.ALIAS, "--concurrency", "1,2", "--rounds", "3", "--max-tokens", "32")


@pytest.mark.skipif(bool(MISSING), reason=f"not installed: {MISSING}")
def test_a_real_engine_with_and_without(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """llama.cpp with a draft against the same model without: every pair is timed, greedy outputs are equal."""
    model = tmp_path / "noise.gguf"
    real_engine.write_model(model, 1)
    ports = real_engine.free_port(), real_engine.free_port()
    with (
        real_engine.serving(model, [0.8, 0.64, 0.5, 0.4], ports[0]) as drafting,
        real_engine.serving(model, [], ports[1]) as plain,
    ):
        code = main(["calibrate", "--with", drafting, "--without", plain, *ARGUMENTS, "--json"])
    found = json.loads(capsys.readouterr().out)
    assert [each["concurrency"] for each in found["results"]] == [1, 2]
    assert [each["pairs"] for each in found["results"]] == [3, 6]
    for each in found["results"]:
        assert each["low"] < each["speedup"] < each["high"]
        assert each["plain_tpot_seconds"] > 0
    assert found["parity"]["equal"] == found["parity"]["compared"] == 9
    assert code == (1 if found["stops_paying_at"] else 0)


def test_a_dry_run_sends_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    """What would be sent is said to the request; addresses on which nobody listens are not asked."""
    address = f"http://127.0.0.1:{real_engine.free_port()}"
    assert main(["calibrate", "--with", address, "--without", address, *ARGUMENTS, "--dry-run"]) == 0
    said = capsys.readouterr().out
    assert said == "would send 18 requests of at most 32 tokens: 3 rounds at 1, 2 at once to each side\n"


def test_no_more_is_sent_than_was_said(capsys: pytest.CaptureFixture[str]) -> None:
    """A server counts what it is asked: exactly the requests that were announced, never more at once than told."""
    seen = {"requests": 0, "most": 0, "now": 0}

    async def answer(request: web.Request) -> web.StreamResponse:
        seen["requests"] += 1
        seen["now"] += 1
        seen["most"] = max(seen["most"], seen["now"])
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for n in range(4):
            await response.write(b'data: {"choices": [{"text": "t%d"}]}\n\n' % n)
            await asyncio.sleep(0)
        seen["now"] -= 1
        await response.write(b'data: {"choices": [], "usage": {"completion_tokens": 4}}\n\ndata: [DONE]\n\n')
        return response

    async def serving() -> int:
        app = web.Application()
        app.router.add_post("/v1/completions", answer)
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        assert site._server is not None
        port = site._server.sockets[0].getsockname()[1]  # type: ignore[attr-defined]
        url = f"http://127.0.0.1:{port}/v1"
        code = await asyncio.to_thread(main, ["calibrate", "--with", url, "--without", url, *ARGUMENTS])
        await runner.cleanup()
        return code

    asyncio.run(serving())
    assert seen["requests"] == 18
    assert seen["most"] <= 2
    assert "sending 18 requests" in capsys.readouterr().err


def test_a_server_that_is_none_is_one_clear_line(capsys: pytest.CaptureFixture[str]) -> None:
    """Nobody listens: exit code 2, and the line names the address."""
    address = f"http://127.0.0.1:{real_engine.free_port()}"
    assert main(["calibrate", "--with", address, "--without", address, *ARGUMENTS]) == 2
    assert address.removeprefix("http://") in capsys.readouterr().err.splitlines()[-1]
