"""The page's sender believes receipts of its own report alone, and follows no redirection."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.support.browser_module import NODE, needs_node

PROGRAM = Path(__file__).with_name("delivery.test.mjs")


@needs_node
def test_the_browser_delivers_to_the_collector_alone_and_believes_its_receipt() -> None:
    run = subprocess.run([str(NODE), "--test", str(PROGRAM)], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout
    assert "# pass 10" in run.stdout
