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
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ROOT = Path(__file__).parents[1]
WIDTH, HEADS, HIDDEN = 32, 2, 64
BYTES = 256
SPECIAL = ("<unk>", "<s>", "</s>")
READY_SECONDS = 60.0


def write_model(path: Path, seed: int) -> None:
    """Write a byte-level model of one layer with random weights: its text is noise, its server is real."""
    gguf = importlib.import_module("gguf")
    random = np.random.default_rng(seed)
    vocabulary = [*SPECIAL, *(f"<0x{byte:02X}>" for byte in range(BYTES))]
    kinds = gguf.TokenType
    writer = gguf.GGUFWriter(str(path), "llama")
    writer.add_name("noise")
    writer.add_context_length(2048)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(1)
    writer.add_feed_forward_length(HIDDEN)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_vocab_size(len(vocabulary))
    writer.add_file_type(0)
    writer.add_tokenizer_model("llama")
    writer.add_token_list(vocabulary)
    writer.add_token_scores([0.0] * len(vocabulary))
    writer.add_token_types([kinds.UNKNOWN, kinds.CONTROL, kinds.CONTROL, *[kinds.BYTE] * BYTES])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_add_space_prefix(value=False)
    shapes = {
        "token_embd": (len(vocabulary), WIDTH),
        "output": (len(vocabulary), WIDTH),
        "blk.0.attn_q": (WIDTH, WIDTH),
        "blk.0.attn_k": (WIDTH, WIDTH),
        "blk.0.attn_v": (WIDTH, WIDTH),
        "blk.0.attn_output": (WIDTH, WIDTH),
        "blk.0.ffn_gate": (HIDDEN, WIDTH),
        "blk.0.ffn_up": (HIDDEN, WIDTH),
        "blk.0.ffn_down": (WIDTH, HIDDEN),
    }
    for name, shape in shapes.items():
        writer.add_tensor(f"{name}.weight", random.normal(0.0, 0.3, shape).astype(np.float32))
    for name in ("output_norm", "blk.0.attn_norm", "blk.0.ffn_norm"):
        writer.add_tensor(f"{name}.weight", np.ones(WIDTH, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


@contextlib.contextmanager
def serving(model: Path, rates: Sequence[float], port: int) -> Iterator[str]:
    """Start the server with these marginal acceptance rates, yield its URL, and stop it by its process id."""
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
    parameters.n_ctx = 2048
    parameters.n_parallel = 2
    parameters.hostnames = ["127.0.0.1"]
    parameters.port = port
    parameters.cpuparams.n_threads = 1
    parameters.endpoint_metrics = parameters.endpoint_props = True
    parameters.warmup = parameters.fit_params = False
    speculative = parameters.speculative
    speculative.types = [x.common_speculative_type.COMMON_SPECULATIVE_TYPE_DRAFT_SIMPLE]
    speculative.draft.mparams.path = model
    speculative.draft.n_max = len(rates)
    speculative.synth_rates = list(rates)
    server = x.Server(parameters)
    sys.stdin.read()
    del server


if __name__ == "__main__":
    _serve(int(sys.argv[1]), sys.argv[2], [float(rate) for rate in sys.argv[3].split(",")])
