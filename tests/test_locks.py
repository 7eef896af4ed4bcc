"""The locks: every package that set-up and the image install has a version and hashes, once."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.support.locks import blocks, name_of

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
FILES = {path.stem: path.read_text(encoding="utf-8") for path in (ROOT / "locks").glob("*.txt")}


def locked(files: Iterable[str]) -> dict[str, list[str]]:
    """Return the versions of each package in some files; markers can choose between several."""
    found: dict[str, list[str]] = {}
    for block in (block for file in files for block in blocks(FILES[file])):
        found.setdefault(name_of(block), []).append(block.split()[0].partition("==")[2])
    return found


def requirements(extra: str) -> list[Requirement]:
    """Return what the project needs with an extra, and what its extras name, without their own dependencies."""
    found: list[Requirement] = []
    for line in [*PROJECT["project"]["dependencies"], *PROJECT["project"]["optional-dependencies"][extra]]:
        requirement = Requirement(line)
        if requirement.name == PROJECT["project"]["name"]:
            found += [needed for inner in requirement.extras for needed in requirements(inner)]
        else:
            found.append(requirement)
    return found


def test_every_line_of_a_lock_is_a_package_with_hashes() -> None:
    for name, text in FILES.items():
        packages = blocks(text)
        assert packages, name
        assert text == "# make lock writes this file.\n" + "".join(packages), "neither options nor addresses"
        for block in packages:
            pin, *hashes = block.removesuffix("\n").split(" \\\n")
            assert re.fullmatch(r"[a-z0-9-]+==[\w.+]+( ; .*)?", pin)
            assert hashes, pin
            for line in hashes:
                assert re.fullmatch(r"    --hash=sha256:[0-9a-f]{64}", line), (pin, line)


def test_no_package_is_in_two_files() -> None:
    assert set(FILES) == {"build", "collector", "develop", "torch", "torch-cpu"}
    names = [name for file in FILES.keys() - {"torch-cpu"} for name in locked([file])]
    assert len(names) == len(set(names))


def test_both_builds_of_torch_have_one_version() -> None:
    assert locked(["torch-cpu"]) == {"torch": [f"{version}+cpu" for version in locked(["torch"])["torch"]]}


@pytest.mark.parametrize(
    ("extra", "files"),
    [("collector", ["collector"]), ("dev", ["build", "collector", "develop", "torch"]), ("docs", FILES)],
)
def test_the_locks_fit_what_the_project_asks_for(extra: str, files: Iterable[str]) -> None:
    found = locked(set(files) - {"torch-cpu"})
    for requirement in requirements(extra):
        versions = found.get(canonicalize_name(requirement.name), [])
        assert versions, f"{requirement} is in none of {files}: make lock"
        assert all(requirement.specifier.contains(version) for version in versions), f"{requirement}: make lock"


def test_the_build_backend_is_locked() -> None:
    names = {canonicalize_name(Requirement(line).name) for line in PROJECT["build-system"]["requires"]}
    assert names <= locked(["build"]).keys()


@pytest.mark.parametrize("recipe", ["Makefile", "deploy/Containerfile"])
def test_nothing_is_installed_from_an_index_without_a_hash(recipe: str) -> None:
    written = (ROOT / recipe).read_text(encoding="utf-8")
    for value in re.findall(r"^WHEELS := (.*)$", written, re.MULTILINE):
        written = written.replace("$(WHEELS)", value)
    text = written.partition("\nOLDEST")
    commands = [line for part in (text[0], text[2].partition("\ncheck:")[2]) for line in part.splitlines()]
    installing = [line for line in commands if re.search(r"\bpip (install|wheel)\b", line)]
    assert len(installing) >= 2
    for command in installing:
        assert "--no-index" in command or {"--require-hashes", "--only-binary=:all:"} <= set(command.split()), command
