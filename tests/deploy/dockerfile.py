"""A Dockerfile as its stages and instructions, and the rules that ours has to keep.

No container engine is needed. The rules are those of the usual linters and of the platform teams that take
an image over: each is a function that names what is wrong, so that a test can show what it refuses.
"""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction: its word in capitals and what follows, lines joined."""

    word: str
    text: str

    @property
    def arguments(self) -> list[str]:
        """The list of an exec form, else the words."""
        return self.exec_form() or shlex.split(self.text)

    def exec_form(self) -> list[str] | None:
        """The words of a JSON list, None for the shell form."""
        _, bracket, rest = self.text.partition("[")
        try:
            found = json.loads(bracket + rest) if bracket else None
        except json.JSONDecodeError:
            return None
        return found if isinstance(found, list) else None


@dataclass(frozen=True, slots=True)
class Stage:
    """A stage: the image it starts from, its name, its instructions."""

    base: str
    name: str
    instructions: tuple[Instruction, ...]

    def of(self, word: str) -> list[Instruction]:
        """The instructions with this word."""
        return [each for each in self.instructions if each.word == word]


@dataclass(frozen=True, slots=True)
class Dockerfile:
    """A whole file: the defaults of the arguments before the first stage, and the stages."""

    defaults: dict[str, str]
    stages: tuple[Stage, ...]

    @property
    def final(self) -> Stage:
        """The stage that becomes the image."""
        return self.stages[-1]


def parse(text: str) -> Dockerfile:
    """The stages of a Dockerfile."""
    defaults: dict[str, str] = {}
    stages: list[tuple[str, str, list[Instruction]]] = []
    for each in _instructions(text):
        if each.word == "FROM":
            base, _, name = each.text.partition(" AS ")
            stages.append((_filled(base, defaults), name, []))
        elif not stages:
            name, _, value = each.text.partition("=")
            defaults[name] = value
        else:
            stages[-1][2].append(each)
    return Dockerfile(defaults, tuple(Stage(base, name, tuple(body)) for base, name, body in stages))


def _instructions(text: str) -> Iterator[Instruction]:
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    for line in re.sub(r"\\\n\s*", "", "\n".join(lines)).splitlines():
        word, _, rest = line.strip().partition(" ")
        yield Instruction(word.upper(), rest.strip())


def _filled(text: str, values: dict[str, str]) -> str:
    return re.sub(r"\$\{(\w+)\}", lambda match: values[match[1]], text)


def broken_rules(file: Dockerfile) -> list[str]:
    """The names of the rules that the file breaks."""
    return [name for name, keeps in RULES.items() if not keeps(file)]


def _pinned(file: Dockerfile) -> bool:
    names = {stage.name for stage in file.stages} | {"scratch"}
    tags = [
        stage.base.rpartition("/")[2].partition(":")[2] for stage in file.stages if stage.base not in names
    ]
    return all(re.match(r"\d+\.\d+", tag) for tag in tags)


def _numeric_user(file: Dockerfile) -> bool:
    users = file.final.of("USER")
    return bool(users) and re.fullmatch(r"[1-9]\d*:[1-9]\d*", users[-1].text) is not None


def _needs_no_shell(file: Dockerfile) -> bool:
    started = [each for word in ("ENTRYPOINT", "CMD", "HEALTHCHECK") for each in file.final.of(word)]
    return not file.final.of("RUN") and all(each.exec_form() is not None for each in started)


def _small_context(file: Dockerfile) -> bool:
    copies = [each for stage in file.stages for each in stage.of("COPY")]
    sources = [word for each in copies for word in each.arguments[:-1] if not word.startswith("--")]
    return not {".", "./", "/", "*"} & set(sources)


def _hashed(file: Dockerfile) -> bool:
    installs = [
        command
        for stage in file.stages
        for each in stage.of("RUN")
        for command in each.text.split("&&")
        if re.search(r"\bpip\b.* install\b", command)
    ]
    local = {"--no-index", "--no-deps"}
    return all("--require-hashes" in command or local <= set(command.split()) for command in installs)


def _no_secret(file: Dockerfile) -> bool:
    words = [each.text for stage in file.stages for word in ("ARG", "ENV") for each in stage.of(word)]
    return not any(re.search(r"(?i)token|password|secret|api_?key|index_url", text) for text in words)


def _absolute_folders(file: Dockerfile) -> bool:
    return all(each.text.startswith("/") for stage in file.stages for each in stage.of("WORKDIR"))


def _labelled(file: Dockerfile) -> bool:
    text = " ".join(each.text for each in file.final.of("LABEL"))
    return all(
        f"org.opencontainers.image.{key}=" in text
        for key in ("title", "description", "licenses", "version", "revision")
    )


RULES: dict[str, Callable[[Dockerfile], bool]] = {
    "bases have a version": _pinned,
    "what builds is not in the image": lambda file: len(file.stages) > 1,
    "the user is a number and not root": _numeric_user,
    "the image needs no shell": _needs_no_shell,
    "COPY names what it takes": _small_context,
    "ADD is not used": lambda file: not any(stage.of("ADD") for stage in file.stages),
    "packages come with hashes": _hashed,
    "no secret in ARG or ENV": _no_secret,
    "WORKDIR is absolute": _absolute_folders,
    "there is one health check": lambda file: len(file.final.of("HEALTHCHECK")) == 1,
    "there are OCI labels": _labelled,
    "there is no anonymous volume": lambda file: not file.final.of("VOLUME"),
}
