"""Messages on standard error: one line each, readable by machines, without secrets."""

from __future__ import annotations

import io
import json
import logging
from datetime import datetime
from typing import TYPE_CHECKING, Literal

import pytest
from aiohttp.http_exceptions import BadHttpMessage

from monitor.service import own_log
from monitor.settings import values

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Form = Literal["logfmt", "json"]
_log = logging.getLogger("monitor.tested")


@pytest.fixture
def written() -> Iterator[Callable[..., str]]:
    """Start logging, write one message with fields, give back what was written without its time."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level

    def write(form: Form, message: str, *secrets: str, **values: object) -> str:
        stream = io.StringIO()
        own_log.start("info", form, secrets=secrets, stream=stream)
        _log.debug("never seen")
        _log.warning(message, extra=values)
        return stream.getvalue()

    yield write
    root.handlers[:] = handlers
    root.setLevel(level)


def test_logfmt(written: Callable[..., str]) -> None:
    """Logfmt quotes what is not one plain word and keeps a message on one line."""
    line = written(
        "logfmt", "scrape failed", target="a:1", seconds=0.5, detail='said "no"\n=', good=False, port=None
    )
    time, _, rest = line.partition(" ")
    assert datetime.fromisoformat(time.removeprefix("ts=")).tzinfo is not None
    assert rest == (
        'level=warning logger=monitor.tested msg="scrape failed" target=a:1 seconds=0.5 '
        'detail="said \\"no\\"\\n=" good=false port=null\n'
    )


def test_json(written: Callable[..., str]) -> None:
    """JSON keeps numbers numbers."""
    fields = json.loads(written("json", "scrape failed", target="a:1", seconds=0.5, good=True, port=None))
    assert datetime.fromisoformat(fields.pop("ts")).tzinfo is not None
    assert fields == {
        "level": "warning",
        "logger": "monitor.tested",
        "msg": "scrape failed",
        "target": "a:1",
        "seconds": 0.5,
        "good": True,
        "port": None,
    }


@pytest.mark.parametrize("form", ["logfmt", "json"])
def test_secrets_are_masked(written: Callable[..., str], form: Form) -> None:
    """A secret is masked in text and fields, one inside another too, and so is every password in a URL."""
    line = written(form, "sent hunter2", "hunter", "hunter2", url="http://u:pa55@a/metrics", all=["hunter2"])
    assert "hunter" not in line
    assert "pa55" not in line
    assert "http://u:…@a/metrics" in line


SECRET_URLS = {
    "http://u:hunter2@a/metrics": "http://u:…@a/metrics",
    "http://u:hunt@er/2@a/x": "http://u:…@er/2@a/x",
    "http://u:hu@nter2@a:1": "http://u:…@a:1",
    "https://hunter2@a/x": "https://…@a/x",
    "http://a/x?token=hunter2&b=c": "http://a/x?token=…&b=…",
    "http://a/x?hunter2": "http://a/x?…",
    "http://a/x?token=hunter2#part": "http://a/x?token=…#part",
    "http://u:hunter2@a/x?k=hunter2": "http://u:…@a/x?k=…",
    "http://a:80/x": "http://a:80/x",
    "http://[::1]:80/x, mail@b": "http://[::1]:80/x, mail@b",
    "what? x=y": "what? x=y",
}


@pytest.mark.parametrize("url", SECRET_URLS)
def test_what_a_url_hides(url: str) -> None:
    """Password, a lone user and the query's values are masked in any text; host, path and names stay."""
    assert values.without_secrets(f"at {url}") == f"at {SECRET_URLS[url]}"


@pytest.mark.parametrize("form", ["logfmt", "json"])
@pytest.mark.usefixtures("written")
def test_an_exception_is_one_line(form: Form) -> None:
    """A traceback is a field of its message."""
    stream = io.StringIO()
    own_log.start("info", form, secrets=["hunter2"], stream=stream)
    values: dict[str, int] = {}
    try:
        values["hunter2"]
    except KeyError:
        _log.exception("failed")
    assert stream.getvalue().count("\n") == 1
    assert "KeyError: '…'" in stream.getvalue()


def test_starting_again_replaces(written: Callable[..., str]) -> None:
    """After a reload messages go out once, in the new form."""
    assert written("logfmt", "one").count("\n") == 1
    assert json.loads(written("json", "two"))["msg"] == "two"


def test_requests_that_are_no_http_leave_no_line() -> None:
    """Anybody can send junk to an open port; a traceback for each would fill the log."""
    root, stream = logging.getLogger(), io.StringIO()
    handlers, level = list(root.handlers), root.level
    try:
        own_log.start("info", stream=stream)
        for error in (BadHttpMessage("junk"), RuntimeError("ours")):
            logging.getLogger("aiohttp.server").error("Error handling request", exc_info=error)
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
    assert "junk" not in stream.getvalue()
    assert "ours" in stream.getvalue()
