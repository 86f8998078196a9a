"""The command line: finds the command, runs it, turns what it says into an exit code."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
import warnings
from typing import TYPE_CHECKING, NoReturn, Protocol, cast

import monitor
from monitor.service import commands

if TYPE_CHECKING:
    from collections.abc import Sequence

_INTERRUPTED = 130  # 128 + SIGINT, as shells have it


class _Command(Protocol):
    """What a module of `monitor.commands` has."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None: ...

    def run(self, arguments: argparse.Namespace) -> int: ...


class _Parser(argparse.ArgumentParser):
    """argparse, but a usage error is one line."""

    def error(self, message: str) -> NoReturn:
        """End the process with exit code 2."""
        self.exit(commands.UNUSABLE, f"{self.prog}: {message}; see {self.prog} --help\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command that `arguments` (by default the process's own) ask for; the exit code."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    # Arithmetic that complains is for tests, where it is an error; nobody can act on it at a terminal.
    warnings.filterwarnings("ignore", category=RuntimeWarning, module=r"monitor\.")
    name = next((word for word in given if not word.startswith("-")), "")
    command = _command(name)
    parser = _parser(name, command)
    if not given:
        parser.print_help(sys.stderr)
        return commands.UNUSABLE
    if command is None:
        # Ends the process: help, version, or usage with exit code 2.
        parser.parse_args(given)
        parser.error(f"read no command, expected one of {', '.join(commands.COMMANDS)}")
    try:
        code = command.run(parser.parse_args(given))
        sys.stdout.flush()
    except commands.Unusable as error:
        print(f"specmon: {error}", file=sys.stderr)
        return commands.UNUSABLE
    except BrokenPipeError:
        # `specmon … | head` ended it. Nothing can be written now, not even by the interpreter's last flush.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return commands.FINE
    except KeyboardInterrupt:
        return _INTERRUPTED
    return code


def _command(name: str) -> _Command | None:
    if name not in commands.COMMANDS:
        return None
    return cast("_Command", importlib.import_module(f"monitor.service.commands.{name.replace('-', '_')}"))


def _parser(name: str, command: _Command | None) -> argparse.ArgumentParser:
    """The parser of the whole command line; only the command asked for has its flags."""
    parser = _Parser(
        prog="specmon",
        description="Says that, when, why and at what cost speculative decoding stopped paying.",
        epilog="exit codes: 0 fine; 1 something was found wrong; 2 usage or unreadable input",
    )
    parser.add_argument("--version", action="version", version=f"specmon {monitor.__version__}")
    choices = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for each, text in commands.COMMANDS.items():
        # Abbreviated flags would change their meaning when a longer one is added.
        chosen = choices.add_parser(each, help=text, description=text.capitalize() + ".", allow_abbrev=False)
        if each == name and command is not None:
            command.add_arguments(chosen)
    return parser


if __name__ == "__main__":
    sys.exit(main())
