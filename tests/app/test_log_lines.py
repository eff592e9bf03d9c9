"""Lines of the log: those of the library and those of its log channel have one form."""

from __future__ import annotations

import re
import subprocess
import sys

PROGRAM = """
import logging, structlog
from betimes.app.server import log_to_stderr, messages_to_stderr
log_to_stderr()
messages_to_stderr(logging.INFO)
logging.getLogger("betimes.alarms").warning("late by %s s", 3)
structlog.get_logger().info("to ana")
"""


def test_all_lines_have_one_form() -> None:
    ended = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    library, channel = ended.stderr.splitlines()
    begins = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ \[%s *\] "
    assert re.fullmatch(begins % "warning" + r"betimes\.alarms: late by 3 s", library)
    assert re.fullmatch(begins % "info" + "to ana", channel.rstrip())
    assert library.index("]") == channel.index("]")
