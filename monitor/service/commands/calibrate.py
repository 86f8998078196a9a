"""`specmon calibrate`: asks a server with speculation and one without the same, says what it gains.

Sends no more requests than it says before it begins: for each concurrency as many rounds as told, each of
that many requests to each side, the sides in turn.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from monitor.service import commands

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    import aiohttp

    from monitor.core.economics.side_by_side import CompletionRun, Side, SideBySide
    from monitor.sources.completions import CompletionServer

PROMPTS = (
    "Write a Python function that merges two sorted lists and explain each line.",
    "Summarise in three sentences how a TCP connection is opened and closed.",
    "List ten European capitals with one fact about each of them.",
    "Translate into French: the train was late because of snow on the line.",
    "Explain to a child why the sky is blue and the sunset is red.",
    "Give a JSON object with the name, height and first ascent of five mountains.",
    "Continue the story: the lighthouse keeper saw a lamp where no ship could be.",
    "What is the difference between a mutex and a semaphore? Give an example in C.",
)
"""What is asked where no file of prompts is given: code, prose, lists, translation, structure."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The two servers and how much to ask."""
    parser.add_argument(
        "--with", dest="speculative", metavar="URL", required=True, help="server that speculates"
    )
    parser.add_argument("--without", dest="plain", metavar="URL", required=True, help="the same without")
    parser.add_argument("--model", required=True, help="model name that both serve")
    parser.add_argument(
        "--concurrency", default="1,4", metavar="N,N…", help="requests at once (default: 1,4)"
    )
    parser.add_argument(
        "--rounds", type=int, default=6, help="turns of both sides per concurrency (default: 6)"
    )
    parser.add_argument("--max-tokens", type=int, default=128, help="longest answer (default: 128)")
    parser.add_argument("--temperature", type=float, default=0.0, help="0 is greedy: outputs must be equal")
    parser.add_argument("--prompts", metavar="FILE", default="", help="file with one prompt a line")
    parser.add_argument("--bearer-token-file", metavar="FILE", default=None, help="token to send to both")
    parser.add_argument("--timeout", type=float, default=120.0, metavar="SECONDS", help="time for one answer")
    parser.add_argument("--dry-run", action="store_true", help="say what would be sent, send nothing")
    parser.add_argument("--json", action="store_true", help="the result as economics.calibrations reads it")


def run(arguments: argparse.Namespace) -> int:
    """Print what speculation gains per concurrency; FOUND where it costs or greedy outputs differ."""
    from monitor.core.economics import side_by_side

    levels, prompts = _levels(arguments.concurrency), _prompts(arguments.prompts)
    if arguments.rounds < 1 or arguments.max_tokens < 2:  # noqa: PLR2004 - a TPOT needs a second token
        raise commands.Unusable("--rounds: expected 1 or more; --max-tokens: expected 2 or more")
    number = 2 * arguments.rounds * sum(levels)
    plan = (
        f"{number} requests of at most {arguments.max_tokens} tokens: {arguments.rounds} rounds at "
        f"{', '.join(map(str, levels))} at once to each side"
    )
    if arguments.dry_run:
        sys.stdout.write(f"would send {plan}\n")
        return commands.FINE
    sys.stderr.write(f"sending {plan}\n")
    runs = asyncio.run(_measure(arguments, levels, prompts))
    found = side_by_side.of(runs, arguments.model, time.time(), sampled=arguments.temperature > 0)
    if not found.results:
        raise commands.Unusable("no answer had a second token: nothing was measured")
    text = json.dumps(side_by_side.as_json(found)) + "\n" if arguments.json else described(found)
    sys.stdout.write(text)
    differing = not found.parity.sampled and found.parity.equal < found.parity.compared
    return commands.FOUND if differing or found.stops_paying_at is not None else commands.FINE


def _levels(text: str) -> list[int]:
    try:
        levels = sorted({int(part) for part in text.split(",")})
    except ValueError:
        levels = []
    if not levels or levels[0] < 1:
        raise commands.Unusable(f"--concurrency: read {text!r}, expected numbers such as 1,4,16")
    return levels


def _prompts(file: str) -> Sequence[str]:
    if not file:
        return PROMPTS
    try:
        lines = [line for line in Path(file).read_text(encoding="utf-8").splitlines() if line.strip()]
    except (OSError, ValueError) as error:
        raise commands.Unusable(f"--prompts: {error}") from error
    if not lines:
        raise commands.Unusable(f"--prompts: {file} has no line, expected one prompt a line")
    return lines


async def _measure(
    arguments: argparse.Namespace, levels: Sequence[int], prompts: Sequence[str]
) -> list[CompletionRun]:
    """Return the answers of both sides; who goes first changes with every round."""
    import aiohttp

    from monitor.sources import completions, lookups

    servers: dict[Side, CompletionServer] = {
        "with": completions.CompletionServer(
            arguments.speculative, arguments.model, bearer_token_file=arguments.bearer_token_file
        ),
        "without": completions.CompletionServer(
            arguments.plain, arguments.model, bearer_token_file=arguments.bearer_token_file
        ),
    }
    runs: list[CompletionRun] = []
    try:
        # A side rests while the other is asked, and may close a connection just as it is used again.
        connections = lookups.connector(limit=0, keepalive=None)
        async with aiohttp.ClientSession(connector=connections) as session:
            for level in levels:
                for number in range(arguments.rounds):
                    chosen = [(number * level + n) % len(prompts) for n in range(level)]
                    order: tuple[Side, ...] = ("with", "without") if number % 2 == 0 else ("without", "with")
                    for side in order:
                        where = (side, level, number)
                        runs += await _round(session, servers[side], where, chosen, prompts, arguments)
    except completions.FailedCompletionError as error:
        raise commands.Unusable(str(error)) from error
    return runs


async def _round(
    session: aiohttp.ClientSession,
    server: CompletionServer,
    run_key: tuple[Side, int, int],
    chosen: Sequence[int],
    prompts: Sequence[str],
    arguments: argparse.Namespace,
) -> list[CompletionRun]:
    from monitor.core.economics.side_by_side import CompletionRun
    from monitor.sources import completions

    asked = [
        completions.ask(
            session,
            server,
            prompts[prompt],
            max_tokens=arguments.max_tokens,
            temperature=arguments.temperature,
            seconds=arguments.timeout,
        )
        for prompt in chosen
    ]
    answers = await asyncio.gather(*asked)
    return [
        CompletionRun(*run_key, n, each.first, each.total, each.tokens, each.text)
        for n, each in enumerate(answers)
    ]


def described(comparison: SideBySide) -> str:
    """Return the result as lines for people."""
    lines = ["  at once   speed-up            TPOT with   without     tokens/s with  without"]
    lines += [
        f"  {each.concurrency:7d}   {each.speedup:4.2f}× [{each.low:.2f}, {each.high:.2f}]   "
        f"{1e3 * each.speculative_tpot_seconds:6.2f} ms   {1e3 * each.plain_tpot_seconds:6.2f} ms   "
        f"{each.speculative_tokens_per_second:10.1f}  {each.plain_tokens_per_second:10.1f}"
        for each in comparison.results
    ]
    stops = comparison.stops_paying_at
    lines.append(f"  stops paying at {stops} at once" if stops else "  pays, or is even, at all of these")
    return "\n".join([*lines, f"  {_parity(comparison)}"]) + "\n"


def _parity(comparison: SideBySide) -> str:
    from monitor.core.economics import side_by_side

    parity = comparison.parity
    if parity.sampled:
        return (
            f"sampled outputs: lengths of one distribution with p = {parity.p_value:.2f}; "
            f"a shift of {100 * parity.smallest_shift:.0f} % of the answers would have been seen"
        )
    if parity.equal == parity.compared:
        return f"greedy outputs are equal in all {parity.compared} pairs"
    return (
        f"greedy outputs differ in {parity.compared - parity.equal} of {parity.compared} pairs; first: "
        f"{parity.first_difference}; known to do so with nothing wrong: {side_by_side.BENIGN}"
    )
