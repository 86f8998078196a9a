"""llama.cpp's own server as a child process, with a tiny model written here and acceptance that is dialled in.

Run as `python -m tests.real_engine PORT MODEL RATES`: serves until its standard input is closed.
"""

from __future__ import annotations

import contextlib
import importlib
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

ROOT = Path(__file__).parents[1]
WIDTH, HEADS, HIDDEN = 32, 2, 64
BYTES = 256
SPECIAL = ("<unk>", "<s>", "</s>")
READY_SECONDS = 60.0
ALIAS = "noise"  # the served name: it stays while the file behind it is another release


def write_model(path: Path, seed: int) -> None:
    """Write a byte-level model of one layer with random weights: its text is noise, its server is real."""
    gguf = importlib.import_module("gguf")
    writer = gguf.GGUFWriter(str(path), "llama")
    vocabulary = [*SPECIAL, *(f"<0x{byte:02X}>" for byte in range(BYTES))]
    _describe(writer, len(vocabulary))
    kinds = gguf.TokenType
    writer.add_token_list(vocabulary)
    writer.add_token_types([kinds.UNKNOWN, kinds.CONTROL, kinds.CONTROL, *[kinds.BYTE] * BYTES])
    random = np.random.default_rng(seed)
    for name, shape in _shapes(len(vocabulary)).items():
        weights = np.ones(shape) if len(shape) == 1 else random.normal(0.0, 0.3, shape)
        writer.add_tensor(f"{name}.weight", weights.astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


class _Writer(Protocol):
    """The part of gguf.GGUFWriter that describes a model."""

    def __getattr__(self, name: str) -> Callable[..., None]: ...


def _describe(writer: _Writer, vocabulary_size: int) -> None:
    writer.add_name("noise")
    writer.add_context_length(2048)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(1)
    writer.add_feed_forward_length(HIDDEN)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_vocab_size(vocabulary_size)
    writer.add_file_type(0)
    writer.add_tokenizer_model("llama")
    writer.add_token_scores([0.0] * vocabulary_size)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_add_space_prefix(False)


def _shapes(vocabulary_size: int) -> dict[str, tuple[int, ...]]:
    square = dict.fromkeys(("attn_q", "attn_k", "attn_v", "attn_output"), (WIDTH, WIDTH))
    layer = square | {"ffn_gate": (HIDDEN, WIDTH), "ffn_up": (HIDDEN, WIDTH), "ffn_down": (WIDTH, HIDDEN)}
    norms = dict.fromkeys(("output_norm", "blk.0.attn_norm", "blk.0.ffn_norm"), (WIDTH,))
    ends = dict.fromkeys(("token_embd", "output"), (vocabulary_size, WIDTH))
    return {**ends, **{f"blk.0.{name}": shape for name, shape in layer.items()}, **norms}


@contextlib.contextmanager
def serving(model: Path, rates: Sequence[float], port: int) -> Iterator[str]:
    """Start the server with these marginal acceptance rates (none: without speculation), yield its URL, and stop it by its process id."""
    told = ",".join(str(rate) for rate in rates)
    command = [sys.executable, "-m", "tests.real_engine", str(port), str(model), told]
    log = model.with_suffix(f".{port}.log")
    with log.open("wb") as output:
        child = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=output, stderr=output)
    try:
        _wait_for(f"http://127.0.0.1:{port}/health", child, log)
        yield f"http://127.0.0.1:{port}"
    finally:
        child.kill()  # it may not end by itself in the middle of a request
        child.communicate()


def free_port() -> int:
    """A port of this host on which nothing listens now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _wait_for(url: str, child: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + READY_SECONDS
    while time.monotonic() < deadline and child.poll() is None:
        with contextlib.suppress(urllib.error.URLError, ConnectionError, TimeoutError):
            urllib.request.urlopen(url, timeout=5).close()  # noqa: S310 - our own child on the loopback
            return
        time.sleep(0.02)
    raise AssertionError(f"the engine did not come up: {log.read_text(errors='replace')[-2000:]}")


def _serve(port: int, model: str, rates: Sequence[float]) -> None:
    x = importlib.import_module("xllamacpp")
    parameters = x.CommonParams()
    parameters.model.path = model
    parameters.model_alias = {ALIAS}
    parameters.n_ctx = 2048
    parameters.n_parallel = 2
    parameters.hostnames = ["127.0.0.1"]
    parameters.port = port
    parameters.cpuparams.n_threads = 1
    parameters.endpoint_metrics = parameters.endpoint_props = True
    parameters.warmup = parameters.fit_params = False
    if rates:
        speculative = parameters.speculative
        speculative.types = [x.common_speculative_type.COMMON_SPECULATIVE_TYPE_DRAFT_SIMPLE]
        speculative.draft.mparams.path = model
        speculative.draft.n_max = len(rates)
        speculative.synth_rates = list(rates)
    server = x.Server(parameters)
    sys.stdin.read()
    del server


if __name__ == "__main__":
    _serve(int(sys.argv[1]), sys.argv[2], [float(rate) for rate in sys.argv[3].split(",") if rate])
