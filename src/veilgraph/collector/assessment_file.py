"""The assessment that the dashboard shows, and the process that computes it now and then.

The collector itself neither trains nor imports what trains.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from veilgraph.campaign.assessment import Assessment
from veilgraph.errors import RunError

logger = logging.getLogger("veilgraph.collector")

_EXCEPTION = re.compile(r"([A-Za-z_][\w.]*(?:Error|Exception|Interrupt))(?=:|$)")


@dataclass(frozen=True, kw_only=True)
class AssessmentFile:
    """A file with an assessment, and how it is computed again.

    Attributes:
        path: the file; it need not exist yet.
        command: command that writes it; empty if another program does, such as cron.
        every: seconds between two runs of the command.
        environment: variables that are set for the command. A store's URL may hold a password, so it is here.
    """

    path: Path
    command: Sequence[str] = ()
    every: float = 0.0
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)

    def read(self, campaign_id: str) -> Assessment | None:
        """Return the assessment of a campaign, or None if there is none yet."""
        return Assessment.read(self.path, campaign_id)

    async def compute_regularly(self, turn: asyncio.Lock) -> None:
        """Run the command at once and then regularly, until cancelled; the process has a low priority.

        Args:
            turn: held while the command runs, so that campaigns are assessed one after the other.
        """
        nice = [path, "-n", "10"] if (path := shutil.which("nice")) else []
        while self.command:
            async with turn:
                await self._compute([*nice, *self.command])
            await asyncio.sleep(self.every)

    async def _compute(self, command: Sequence[str]) -> None:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
            env={**os.environ, **self.environment},
        )
        try:
            _, errors = await process.communicate()
        except asyncio.CancelledError:
            with suppress(ProcessLookupError):  # it ended in this moment
                process.kill()
            await process.wait()
            raise
        if process.returncode:
            logger.warning("the collection could not be assessed: %s", _reason(errors.decode("utf-8", "replace")))


def _reason(said: str) -> str:
    r"""Return the last error that a command states; of a crash the exception's type alone: its text may hold values.

    >>> _reason("Traceback (most recent call last):\nValueError: could not convert string to float: 'ill'")
    'ValueError'
    """
    lines = said.splitlines()
    stated = [line for line in lines if line.startswith("error:")]
    types = [found[1] for line in lines if (found := _EXCEPTION.match(line))]
    return (stated or types or ["the command failed"])[-1]


def parse_duration(text: str) -> float:
    """Parse a duration, and return seconds.

    >>> parse_duration("6h"), parse_duration("30 min"), parse_duration("1d")
    (21600.0, 1800.0, 86400.0)
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(min|h|d)\s*", text)
    seconds = float(match[1]) * {"min": 60, "h": 3600, "d": 86400}[match[2]] if match else 0.0
    if seconds < 60:
        raise RunError(f"the duration is '{text}': write one minute or more, such as 30min, 6h or 1d")
    return seconds
