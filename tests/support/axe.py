"""axe-core for tests: finds what people with disabilities could not use. `make test-slow` installs it from npm."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.chromium import Page

AXE = Path(__file__).parents[1] / "node_modules" / "axe-core" / "axe.min.js"

needs_axe = pytest.mark.skipif(not AXE.exists(), reason="axe-core is not installed: npm ci --prefix tests")


def violations(page: Page) -> list[str]:
    """Return what axe-core finds on the page as it is shown: the rule, the element, and the reason."""
    page.run(f"globalThis.axe ? undefined : void (0, eval)({json.dumps(AXE.read_text(encoding='utf-8'))})")
    found = page.run("axe.run(document, { resultTypes: ['violations'] }).then(({ violations }) => violations)")
    return [f"{rule['id']}: {node['html']}: {node['failureSummary']}" for rule in found for node in rule["nodes"]]
