"""README.md's tables, made from the code; `python -m tests.readme --write` brings them up to date."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from monitor import settings
from monitor.core.vocabulary import EVENT_KINDS
from monitor.service import commands
from monitor.settings import layers
from monitor.web import guidance, sentences
from tests.acceptbench import figures
from tests.engines import matrix

if TYPE_CHECKING:
    from collections.abc import Callable

README = Path(__file__).parents[1] / "README.md"
_BLOCK = re.compile(r"(<!-- made from the code: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def settings_table() -> str:
    """A row per setting; a flag and a variable have the same name, so they are said once, above the table."""
    rows = ["| setting | value | default | meaning |", "| --- | --- | --- | --- |"]
    for setting in settings.describe():
        default = "required" if setting.default is None else _default(json.loads(setting.default))
        meaning = setting.description.replace("|", "\\|")
        rows.append(f"| `{setting.name}` | {setting.kind} | {default} | {meaning} |")
    return "\n".join(rows) + "\n"


def commands_table() -> str:
    """A row per command."""
    rows = ["| command | what it does |", "| --- | --- |"]
    rows += [f"| `specmon {name}` | {text} |" for name, text in commands.COMMANDS.items()]
    return "\n".join(rows) + "\n"


def guidance_tables() -> str:
    """What to do by kind of event, then by likely cause: the texts of the report's pages."""
    rows = ["| when specmon says | do this first |", "| --- | --- |"]
    rows += [
        f"| {sentences.KIND_WORDS[kind]} (`{kind}`) | {guidance.BY_KIND[kind]} |" for kind in EVENT_KINDS
    ]
    rows += ["", "| and the likely cause is | then |", "| --- | --- |"]
    rows += [f"| {cause.replace('_', ' ')} | {text} |" for cause, text in guidance.BY_CAUSE.items()]
    rows += ["", "| engine | without speculation |", "| --- | --- |"]
    rows += [f"| {engine} | {text} |" for engine, text in guidance.BY_ENGINE.items()]
    return "\n".join(rows) + "\n"


PARTS: dict[str, Callable[[], str]] = {
    "guidance": guidance_tables,
    "settings": settings_table,
    "commands": commands_table,
    "engines": matrix.table,
    "figures": figures.table,
}


def up_to_date(text: str) -> str:
    """The text with every generated part as the code has it now."""
    return _BLOCK.sub(lambda found: found[1] + PARTS[found[2]]() + found[3], text)


def parts(text: str) -> list[str]:
    """The names of the generated parts in the text."""
    return [found[2] for found in _BLOCK.finditer(text)]


def names(setting: str) -> tuple[str, str]:
    """Flag and environment variable of a setting."""
    return layers.flag(setting), layers.variable(setting)


def _default(value: object) -> str:
    if value in (None, "", [], {}):
        return ""
    if isinstance(value, list):
        return ", ".join(f"`{item}`" for item in value)
    return f"`{value}`" if isinstance(value, str) else f"`{json.dumps(value)}`"


if __name__ == "__main__":
    before = README.read_text()
    after = up_to_date(before)
    if "--write" in sys.argv[1:]:
        README.write_text(after)
    sys.exit(0 if after == before or "--write" in sys.argv[1:] else "README.md is out of date: make format")
