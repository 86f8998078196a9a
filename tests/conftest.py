"""What holds for all tests: a slow machine is no failure, so examples of hypothesis have no deadline."""

from __future__ import annotations

import hypothesis

hypothesis.settings.register_profile("tests", deadline=None)
hypothesis.settings.load_profile("tests")
