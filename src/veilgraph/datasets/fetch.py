"""Data sets from their public homes: downloaded, checked, converted, checked again, and written whole.

Originals stay in memory. What reaches the disk is the converted file, and only if its arrays have the checksum of
the catalogue: an original that was changed, damaged or replaced cannot pass.
"""

from __future__ import annotations

import csv
import hashlib
import http.client
import pickle
import urllib.error
import urllib.request
import zipfile
from collections.abc import Callable
from pathlib import Path

from veilgraph.datasets.archive import Archive
from veilgraph.datasets.catalogue import VARIABLE, Dataset, Origin, OriginalFile
from veilgraph.datasets.sources import CONVERTERS
from veilgraph.errors import RunError, VeilgraphError

Progress = Callable[[str, int, int], None]
"""Called with the file that comes next, how many have come, and how many there are."""

LARGEST_FILE = 64 * 2**20
"""Bytes of an original file; the largest that is needed has an eighth of them."""

_CHUNK = 2**16

# What a converter meets in a file of another form than it expects.
_MALFORMED = (
    AttributeError,
    EOFError,
    LookupError,
    MemoryError,
    OverflowError,
    RecursionError,
    StopIteration,
    TypeError,
    ValueError,
    csv.Error,
    pickle.UnpicklingError,
    zipfile.BadZipFile,
    VeilgraphError,
)


def fetch(dataset: Dataset, folder: Path, *, timeout: float = 60.0, progress: Progress | None = None) -> Path:
    """Write NAME.npz into a folder.

    Args:
        dataset: what to fetch.
        folder: where to write it; made where it is missing.
        timeout: seconds to wait for a server that says nothing.
        progress: told about every file.
    """
    path = folder / f"{dataset.name}.npz"
    problems = []
    for origin in dataset.origins:
        try:
            archive = _obtain(dataset, origin, timeout, progress or _silent)
        except RunError as error:
            problems.append(str(error))
            continue
        archive.write(path)
        return path
    others = "" if len(problems) == 1 else " (nor from its other home)"
    raise RunError(
        f"{dataset.name} could not be fetched: {problems[0]}{others}; try again, "
        f"or put {path.name} from another machine into a folder and set {VARIABLE} to it"
    )


def _obtain(dataset: Dataset, origin: Origin, timeout: float, progress: Progress) -> Archive:
    files = {}
    for done, file in enumerate(origin.files):
        progress(file.url.rpartition("/")[2], done, len(origin.files))
        files[file.part] = download(file, timeout=timeout)
    progress("converted", len(origin.files), len(origin.files))
    home = origin.files[0].url
    try:
        archive = CONVERTERS[origin.format](dataset.name, files)
    except _MALFORMED as error:
        raise RunError(f"{home} and its companions are not in the expected form ({type(error).__name__})") from error
    if archive.checksum != dataset.checksum:
        raise RunError(f"{home} and its companions hold other data than the catalogue (the checksum differs)")
    return archive


def download(file: OriginalFile, *, timeout: float) -> bytes:
    """The bytes of a file, all of them and the right ones."""
    try:
        with _opener().open(file.url, timeout=timeout) as response:
            content = _read(response, file.url)
    except urllib.error.HTTPError as error:
        error.close()
        raise RunError(f"{file.url} is not to be had (HTTP {error.code})") from error
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", error)
        raise RunError(f"{file.url} cannot be reached ({reason or type(error).__name__})") from error
    if file.sha256 is not None and hashlib.sha256(content).hexdigest() != file.sha256:
        raise RunError(f"{file.url} is not the file that is catalogued (its SHA-256 differs)")
    return content


def _opener() -> urllib.request.OpenerDirector:
    """What `urlopen` uses, without the handlers of local files, FTP and data in the address."""
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler(),
        urllib.request.HTTPHandler(),
        urllib.request.HTTPSHandler(),
        urllib.request.HTTPRedirectHandler(),
        urllib.request.HTTPDefaultErrorHandler(),
        urllib.request.HTTPErrorProcessor(),
        urllib.request.UnknownHandler(),
    ):
        opener.add_handler(handler)
    return opener


def _read(response: http.client.HTTPResponse, url: str) -> bytes:
    content = bytearray()
    while chunk := response.read(_CHUNK):
        content += chunk
        if len(content) > LARGEST_FILE:
            raise RunError(f"{url} is larger than {LARGEST_FILE // 2**20} MiB, which no original is")
    announced = response.headers.get("Content-Length")
    if announced is not None and announced.strip() != str(len(content)):
        raise RunError(f"{url} broke off after {len(content)} of {announced} bytes")
    return bytes(content)


def _silent(what: str, done: int, total: int) -> None:
    """No progress is shown."""
