"""The services bring nothing along that they can do without: a command line that imports them starts at once."""

from __future__ import annotations

import subprocess
import sys

CODE = """
import sys
import branches.agents.service, branches.chat.service, branches.spellcasting.service
print(*sorted({"nats", "pydantic", "rich", "structlog"} & set(sys.modules)))
"""


def test_no_library_for_logs_or_the_wire_is_imported_with_the_services():
    imported = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    assert imported.stdout.split() == []
