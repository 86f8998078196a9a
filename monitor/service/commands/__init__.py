"""The commands of the command line: one module each, loaded only when it is the one that was asked for.

A command's module has `add_arguments(parser)` and `run(arguments) -> exit code`; heavy imports are in `run`.
Exit codes: 0 fine; 1 something was found wrong; 2 usage or unreadable input, with one line on standard error;
3 too little was seen to say.
"""

from __future__ import annotations

# Name on the command line → the one line of `specmon --help`. The module is the name with _ for -.
COMMANDS = {
    "run": "watch the targets: scrape, detect, serve metrics and the report",
    "demo": "the service against simulated engines, a collapse included",
    "top": "show the models of a running monitor in the terminal, worst first",
    "inspect": "say what one page of an engine (or several, in time order) shows",
    "replay": "run recorded history through the same pipeline and print what it would have said",
    "compare": "say whether a second recording accepts more or less than a first one, and how sure that is",
    "advise": "say which num_speculative_tokens to set, and from what batch size it stops paying",
    "calibrate": "measure a server with speculation against one without: the gain, and equal outputs",
    "change": "tell a running monitor what was changed: a rollout, a draft, the traffic",
    "rules": "print the alert rules, dashboards and runbooks of this version, with your addresses in them",
    "check-config": "show the effective settings, secrets masked, or the path of what is wrong in them",
}

FINE = 0
FOUND = 1
UNUSABLE = 2
UNDECIDED = 3


class Unusable(Exception):  # noqa: N818 - read aloud: `raise commands.Unusable`
    """Usage or input that a command cannot work with: ends it with exit code 2 and this one line."""
