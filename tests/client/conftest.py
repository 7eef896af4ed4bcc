"""A browser for each module of tests, and a tab for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.chromium import Page, chromium


@pytest.fixture(scope="module")
def browser() -> Iterator[Page]:
    with chromium() as opened:
        yield opened


@pytest.fixture
def page(browser: Page) -> Iterator[Page]:
    """Open a tab, whose settings end with it."""
    first = browser.session
    browser.new_tab()
    yield browser
    browser.call("Page.close")
    browser.switch(first)
