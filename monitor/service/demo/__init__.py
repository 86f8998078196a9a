"""Simulated engines for trying the monitor out: no model runs, requests and acceptance are drawn at random.

They serve pages shaped as vLLM's over real HTTP. Every model name begins with `simulated/`, and every HELP
text says that it is simulated.
"""

from __future__ import annotations

from monitor.service.demo.simulated_fleet import SimulatedFleet

__all__ = ["SimulatedFleet"]
