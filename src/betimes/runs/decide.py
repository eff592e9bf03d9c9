"""The deciders of runs."""

from __future__ import annotations

from typing import Any

from betimes.core.deciders import Decider
from betimes.runs.account import QUOTA
from betimes.runs.admission import ACCOUNT
from betimes.runs.run_lifecycle import RUN

DECIDERS: tuple[Decider[Any], ...] = (ACCOUNT, RUN, QUOTA)
