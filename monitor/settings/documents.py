"""Reads YAML, and JSON with it, strictly: the one place that knows the library."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from yaml import SafeLoader

_KEY_TAGS = ("tag:yaml.org,2002:str", "tag:yaml.org,2002:merge")


class NotYaml(Exception):  # noqa: N818 - read aloud: `except documents.NotYaml`
    """A text that is not YAML; the message says where."""


def read(text: str) -> object:
    """What the YAML in `text` says, None where it is empty; raises Malformed, also for a key given twice."""
    import yaml  # noqa: PLC0415 - half a megabyte that a monitor without a file does not need

    try:
        return yaml.load(text, _loader())  # noqa: S506 - a SafeLoader
    except yaml.MarkedYAMLError as error:
        where = f"line {error.problem_mark.line + 1}" if error.problem_mark else "somewhere"
        raise NotYaml(f"not YAML: {where}: {error.problem or error.context}") from error
    except yaml.YAMLError as error:
        raise NotYaml(f"not YAML: {error}") from error
    except RecursionError:
        raise NotYaml("not YAML that can be read: too many lists or mappings in each other") from None


@functools.cache
def _loader() -> type[SafeLoader]:
    import yaml  # noqa: PLC0415

    class Loader(yaml.SafeLoader):
        """YAML in which a key given twice is an error: the first of the two would be lost in silence.

        So is a key that is no text (`yes: 1`), and half a character, which YAML can say and no output can.
        """

        def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[object, object]:  # noqa: FBT001, FBT002 - the library's signature
            keys = set()
            for key, _ in node.value:
                if key.tag not in _KEY_TAGS:
                    problem = f"read {_shown(key.value)} as a key, expected a name that is text"
                    raise yaml.MarkedYAMLError(problem=problem, problem_mark=key.start_mark)
                if key.value in keys:
                    raise yaml.MarkedYAMLError(
                        problem=f"{key.value!r} is given twice", problem_mark=key.start_mark
                    )
                keys.add(key.value)
            return super().construct_mapping(node, deep)

        def construct_object(self, node: yaml.Node, deep: bool = False) -> object:  # noqa: FBT001, FBT002 - the library's signature
            """Return the value of a node; what Python makes nothing of is said with its line."""
            try:
                value: object = super().construct_object(node, deep)
                if isinstance(value, str):
                    value.encode()
            except ValueError:
                # Not what stands there: it may be a secret.
                kind = node.tag.rpartition(":")[2]
                problem = f"a value looks like {kind} and is none, expected quotes around a text"
                raise yaml.MarkedYAMLError(problem=problem, problem_mark=node.start_mark) from None
            return value

    return Loader


def _shown(value: object) -> str:
    """Return a scalar as it stands there, nothing of what has parts."""
    return ascii(value)[:40] if isinstance(value, str) else "a list or mapping"
