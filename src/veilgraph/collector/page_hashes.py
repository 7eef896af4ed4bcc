"""Hashes of the files of the participant's page, and their comparison with a page that a server serves.

The same version of the package serves the same files everywhere. `python -m veilgraph.collector.page_hashes` prints
their SHA-256 as `sha256sum` does, and `make dist` writes them to `dist/SHA256SUMS`. What compares can see only the
files that the server sends to it: a server can send other files to other people.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Mapping
from http.client import HTTPException
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import urlopen

from veilgraph.collector.participant_page import participant_page
from veilgraph.errors import VeilgraphError

_SECONDS = 20.0


def page_hashes() -> dict[str, str]:
    """Return the SHA-256 of each file of the page by its name; the page itself is `index.html`.

    >>> len(page_hashes()["index.html"])
    64
    """
    files = {path.removeprefix("/") or "index.html": file.content for path, file in participant_page().items()}
    return {name: hashlib.sha256(content).hexdigest() for name, content in sorted(files.items()) if content}


def sha256sums(hashes: Mapping[str, str]) -> str:
    r"""Return hashes in the form that `sha256sum --check` reads.

    >>> sha256sums({"index.html": "0a1b"})
    '0a1b  index.html\n'
    """
    return "".join(f"{digest}  {name}\n" for name, digest in hashes.items())


def compare_page(url: str) -> list[str]:
    """Compare the page at an address with the page of this version; return a sentence for each file that differs.

    Args:
        url: address of a participant's page. What stands after `?` or `#`, such as a person's code, is not used.

    Raises:
        VeilgraphError: if nothing answers at the address.
    """
    address = urlsplit(url)
    if address.scheme not in ("http", "https") or not address.hostname:
        raise VeilgraphError("the address of a page begins with https:// or http:// and names a server")
    root = f"{address.scheme}://{address.netloc}{address.path.removesuffix('index.html').rstrip('/')}/"
    return [
        difference
        for name, digest in page_hashes().items()
        if (difference := _difference(root + name.removesuffix("index.html"), name, digest))
    ]


def _difference(address: str, name: str, digest: str) -> str | None:
    """Return in words how a served file differs, or None."""
    try:
        with urlopen(address, timeout=_SECONDS) as reply:  # noqa: S310 (the scheme was checked)
            served = hashlib.sha256(reply.read()).hexdigest()
    except HTTPError as error:
        return f"{name} is not served: the server answers {error.code}"
    except (OSError, HTTPException) as error:
        raise VeilgraphError(f"{address} cannot be reached: {getattr(error, 'reason', error)}") from None
    return None if served == digest else f"{name} differs: its SHA-256 is {served}, and not {digest}"


if __name__ == "__main__":
    sys.stdout.write(sha256sums(page_hashes()))
