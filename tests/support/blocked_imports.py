"""Programs that run as on a machine where some libraries are not installed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Collection

_BLOCK = """
import sys
class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {blocked!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name.split(".")[0])
        return None
sys.meta_path.insert(0, Blocker())
"""


def run_without(libraries: Collection[str], code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python code in a new process in which the named libraries cannot be imported."""
    program = _BLOCK.format(blocked=set(libraries)) + code
    return subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=False)
