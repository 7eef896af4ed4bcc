"""One place in the code writes few lines to the log, however often it is reached, and none is lost without a count."""

from __future__ import annotations

import logging

from veilgraph.collector.log_limit import LogRateLimit


class Lines(logging.Handler):
    """A handler that keeps its lines."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


def test_lines_beyond_the_rate_are_left_out_and_counted() -> None:
    now = [0.0]
    logger, handler = logging.Logger("test"), Lines()
    handler.addFilter(LogRateLimit(per_second=1, burst=3, clock=lambda: now[0]))
    logger.addHandler(handler)

    def flood(times: int) -> None:
        for number in range(times):
            logger.warning("malformed request %d", number)

    flood(1000)
    logger.warning("another place")
    assert handler.lines == [f"malformed request {number}" for number in range(3)] + ["another place"]
    now[0] = 1.0
    flood(2)
    assert handler.lines[4:] == ["malformed request 0 (997 more like this were left out)"]
