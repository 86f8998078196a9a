"""Reads YAML, and JSON with it, strictly: the one place that knows the library."""

from __future__ import annotations


class Malformed(Exception):  # noqa: N818 - read aloud: `except documents.Malformed`
    """A text that is not YAML; the message says where."""


def read(text: str) -> object:
    """What the YAML in `text` says, None where it is empty; raises Malformed, also for a key given twice."""
    import yaml  # noqa: PLC0415 - half a megabyte that a monitor without a file does not need

    class Loader(yaml.SafeLoader):
        """YAML in which a key given twice is an error: the first of the two would be lost in silence."""

        def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[object, object]:  # noqa: FBT001, FBT002 - the library's signature
            keys = set()
            for key, _ in node.value:
                if key.value in keys:
                    raise yaml.MarkedYAMLError(
                        problem=f"{key.value!r} is given twice", problem_mark=key.start_mark
                    )
                keys.add(key.value)
            return super().construct_mapping(node, deep)

    try:
        return yaml.load(text, Loader)  # noqa: S506 - a SafeLoader
    except yaml.MarkedYAMLError as error:
        where = f"line {error.problem_mark.line + 1}" if error.problem_mark else "somewhere"
        raise Malformed(f"not YAML: {where}: {error.problem or error.context}") from error
    except yaml.YAMLError as error:
        raise Malformed(f"not YAML: {error}") from error
