"""Download of public data sets: original files are checked, converted, checked again and written atomically.

An original is read only if it has the SHA-256 of the catalogue. It stays in memory. Only the converted file is written,
and only if its arrays have the checksum of the catalogue.
"""

from __future__ import annotations

import csv
import hashlib
import http.client
import pickle
import urllib.error
import urllib.request
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

from veilgraph.datasets.archive import Archive
from veilgraph.datasets.catalogue import DATA_VARIABLE, Dataset, Origin, OriginalFile
from veilgraph.datasets.converters import CONVERTERS
from veilgraph.errors import RunError, VeilgraphError

ProgressCallback = Callable[[str, int, int], None]
"""Function that takes the next file, the number of finished files, and the number of all files."""

MAX_FILE_BYTES = 64 * 2**20
"""Largest accepted original file; the largest one of the catalogue is eight times smaller."""

_CHUNK = 2**16

# Errors that a converter raises on a file of an unexpected form.
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


def fetch(
    dataset: Dataset,
    folder: Path,
    *,
    timeout: float = 60.0,
    max_file_bytes: int = MAX_FILE_BYTES,
    unverified: bool = False,
    progress: ProgressCallback | None = None,
) -> Path:
    """Download a data set, write NAME.npz into a folder and return its path.

    Args:
        dataset: entry of the catalogue.
        folder: folder to write to; created if it is missing.
        timeout: seconds to wait for an answer of the server.
        max_file_bytes: largest accepted original file.
        unverified: whether to read originals whose SHA-256 the catalogue does not know.
        progress: function to call before each file.
    """
    path = folder / f"{dataset.name}.npz"
    problems = []
    for origin in dataset.origins:
        try:
            if not unverified:
                _check_hashes_known(origin)
            files = _download_all(origin, timeout, max_file_bytes, progress or _silent)
            archive = _convert(dataset, origin, files)
        except RunError as error:
            problems.append(str(error))
            continue
        archive.write(path)
        return path
    others = "" if len(problems) == 1 else " (its other source failed, too)"
    raise RunError(
        f"{dataset.name} could not be fetched: {problems[0]}{others}; try again, "
        f"or put {path.name} from another machine into a folder and set {DATA_VARIABLE} to it"
    )


def _check_hashes_known(origin: Origin) -> None:
    for file in origin.files:
        if file.sha256 is None:
            raise RunError(f"the catalogue has no SHA-256 of {file.url}; read it unverified, if you trust its source")


def _download_all(origin: Origin, timeout: float, max_file_bytes: int, progress: ProgressCallback) -> dict[str, bytes]:
    files = {}
    for done, file in enumerate(origin.files):
        progress(file.url.rpartition("/")[2], done, len(origin.files))
        files[file.part] = download(file, timeout=timeout, max_bytes=max_file_bytes)
    progress("converted", len(origin.files), len(origin.files))
    return files


def _convert(dataset: Dataset, origin: Origin, files: Mapping[str, bytes]) -> Archive:
    first = origin.files[0].url
    try:
        archive = CONVERTERS[origin.format](dataset.name, files)
    except _MALFORMED as error:
        raise RunError(f"{first} and its other files are not in the expected form ({type(error).__name__})") from error
    if archive.checksum != dataset.checksum:
        raise RunError(f"{first} and its other files hold other data than the catalogue (the checksum differs)")
    return archive


def download(file: OriginalFile, *, timeout: float, max_bytes: int = MAX_FILE_BYTES) -> bytes:
    """Download one original file completely and verify its SHA-256 if it is known."""
    try:
        with _opener().open(file.url, timeout=timeout) as response:
            content = _read(response, file.url, max_bytes)
    except urllib.error.HTTPError as error:
        error.close()
        raise RunError(f"{file.url} cannot be downloaded (HTTP {error.code})") from error
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", error)
        raise RunError(f"{file.url} cannot be reached ({reason or type(error).__name__})") from error
    if file.sha256 is not None and hashlib.sha256(content).hexdigest() != file.sha256:
        raise RunError(f"{file.url} is not the file of the catalogue (its SHA-256 differs)")
    return content


def _opener() -> urllib.request.OpenerDirector:
    """Return the opener of `urlopen` without its handlers of local files, FTP and data URLs."""
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


def _read(response: http.client.HTTPResponse, url: str, max_bytes: int) -> bytes:
    content = bytearray()
    while chunk := response.read(_CHUNK):
        content += chunk
        if len(content) > max_bytes:
            raise RunError(f"{url} is larger than {max_bytes:,} bytes, which no original file is")
    announced = response.headers.get("Content-Length")
    if announced is not None and announced.strip() != str(len(content)):
        raise RunError(f"{url} ended after {len(content)} of {announced} bytes")
    return bytes(content)


def _silent(what: str, done: int, total: int) -> None:
    """Show no progress."""
