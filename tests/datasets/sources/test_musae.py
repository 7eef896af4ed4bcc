"""Old and new text files of MUSAE are converted without loss."""

from __future__ import annotations

import pytest

from tests.support.originals import musae_files, small_archive
from tests.support.public_data import real_archive
from veilgraph.datasets.catalogue import find_dataset
from veilgraph.datasets.sources import CONVERTERS
from veilgraph.datasets.sources.musae import convert_facebook, convert_twitch

PAGE_TYPES = ("company", "tvshow", "politician", "government")


@pytest.mark.parametrize(("label", "names"), [("target", ()), ("page_type", PAGE_TYPES)])
def test_small_pages_are_converted_whole(label: str, names: tuple[str, ...]) -> None:
    archive = small_archive(width=4714, class_names=PAGE_TYPES)
    files = musae_files(archive, label=label, names=names)
    assert convert_facebook("small", files).checksum == archive.checksum


@pytest.mark.parametrize(("label", "names"), [("target", ()), ("mature", ("False", "True"))])
def test_small_streamers_are_converted_whole(label: str, names: tuple[str, ...]) -> None:
    archive = small_archive(width=3170, loops=False)
    files = musae_files(archive, label=label, names=names)
    assert convert_twitch("small", files).checksum == archive.checksum


def test_a_node_whose_label_is_missing_is_noticed() -> None:
    files = musae_files(small_archive(width=3170))
    rest = [line for line in files["target"].splitlines(keepends=True) if not line.startswith(b"3,")]
    with pytest.raises(KeyError):
        convert_twitch("small", files | {"target": b"".join(rest)})


@pytest.mark.parametrize("name", ["facebook", "twitch_engb"])
def test_files_like_the_real_ones_give_the_catalogued_arrays(name: str) -> None:
    dataset = find_dataset(name)
    files = musae_files(real_archive(name))
    assert CONVERTERS[dataset.origins[0].format](name, files).checksum == dataset.checksum
