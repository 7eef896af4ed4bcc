"""Threads of torch sleep while they wait, unless the user has chosen otherwise."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

PRINT = "import os, veilgraph; print(os.environ['OMP_WAIT_POLICY'])"


@pytest.mark.parametrize(("chosen", "found"), [(None, "PASSIVE"), ("ACTIVE", "ACTIVE")])
def test_the_package_sets_how_threads_wait_unless_the_user_did(chosen: str | None, found: str) -> None:
    environment = {key: value for key, value in os.environ.items() if key != "OMP_WAIT_POLICY"}
    environment |= {} if chosen is None else {"OMP_WAIT_POLICY": chosen}
    done = subprocess.run([sys.executable, "-c", PRINT], capture_output=True, text=True, check=True, env=environment)
    assert done.stdout.strip() == found
