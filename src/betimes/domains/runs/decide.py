"""The deciders of runs."""

from __future__ import annotations

from typing import Any

from betimes.core.deciders import Decider
from betimes.domains.runs.account import QUOTA
from betimes.domains.runs.admission import ACCOUNT
from betimes.domains.runs.life import RUN

DECIDERS: tuple[Decider[Any], ...] = (ACCOUNT, RUN, QUOTA)
