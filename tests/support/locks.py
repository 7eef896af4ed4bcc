"""Writes `locks/`: exact versions of all packages with the hashes of their wheels; `make lock` runs it.

Each package is in one file, so that no two files disagree:

- `build.txt`: the build backend;
- `collector.txt`: what the collector needs;
- `torch.txt`: torch as the package index has it, with the CUDA libraries that it needs on Linux;
- `torch-cpu.txt`: the build of torch without CUDA, for Linux;
- `develop.txt`: everything else.

Versions stay as they are, unless pyproject.toml forbids them or an option of `uv pip compile` says so (`--upgrade`).
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
LOCKS = ROOT / "locks"
HEADER = "# make lock writes this file.\n"
CUDA = ("cuda-", "nvidia-", "triton")
"""How the names of the libraries begin that torch needs for CUDA."""
PYTHONS = ("3.11", "3.12", "3.13")
PLATFORMS = ("manylinux_2_28_x86_64", "manylinux_2_28_aarch64")
"""Where the index's build of torch needs CUDA."""


def blocks(text: str) -> list[str]:
    r"""Return the packages of a lock: each with its version, its marker and its hashes.

    >>> blocks("# comment\na==1 \\\n    --hash=sha256:00\nb==2 ; sys_platform == 'linux' \\\n    --hash=sha256:11\n")
    ['a==1 \\\n    --hash=sha256:00\n', "b==2 ; sys_platform == 'linux' \\\n    --hash=sha256:11\n"]
    """
    return re.findall(r"^\w.*\n(?: .*\n)*", text, re.MULTILINE)


def name_of(block: str) -> str:
    """Return the name of a package.

    >>> name_of("torch-geometric==2.8.1 ...")
    'torch-geometric'
    """
    return block.partition("==")[0]


def compile_lock(requirements: str | Path, kept: list[str], *options: str) -> list[str]:
    """Return what requirements need, for every platform and supported Python.

    Args:
        requirements: text of requirements, or the path of pyproject.toml.
        kept: packages whose versions stay where that is possible.
        options: further options of `uv pip compile`.
    """
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "requirements.in", Path(folder) / "lock.txt"
        target.write_text("".join(kept), encoding="utf-8")
        if isinstance(requirements, str):
            source.write_text(requirements, encoding="utf-8")
        else:
            source = requirements
        command = ["uv", "pip", "compile", "--quiet", "--universal", f"--python-version={PYTHONS[0]}", "--no-config"]
        # No source is built: a hash of the source would say nothing about the backend that builds it.
        form = ["--generate-hashes", "--only-binary=:all:", "--no-header", "--no-annotate", "--no-emit-index-url"]
        subprocess.run(
            [sys.executable, "-m", *command, *form, *options, str(source), f"--output-file={target}"], check=True
        )
        return blocks(target.read_text(encoding="utf-8"))


def cpu_build(version: str, kept: list[str]) -> str:
    """Return torch without CUDA: known hashes, and one of each wheel that pip finds, by its configuration."""
    pin = f"torch=={version}+cpu"
    hashes = {found for block in kept if block.startswith(f"{pin} ") for found in re.findall(r"sha256:\w+", block)}
    for python in PYTHONS:
        for platform in PLATFORMS:
            command = ["install", "--dry-run", "--quiet", "--ignore-installed", "--no-deps", "--report=-", "--target=."]
            wheel = [f"--python-version={python}", f"--platform={platform}", "--only-binary=:all:", pin]
            done = subprocess.run([sys.executable, "-m", "pip", *command, *wheel], capture_output=True, check=False)
            if done.returncode == 0:
                (found,) = json.loads(done.stdout)["install"]
                hashes.add(f"sha256:{found['download_info']['archive_info']['hashes']['sha256']}")
    if not hashes:
        raise SystemExit(f"pip finds no {pin}: name the index of torch's builds for the CPU in pip's configuration")
    return " \\\n    ".join([pin, *(f"--hash={known}" for known in sorted(hashes))]) + "\n"


def write(name: str, packages: list[str]) -> None:
    """Write one file of `locks/`."""
    (LOCKS / name).write_text(HEADER + "".join(packages), encoding="utf-8")


def main(*options: str) -> None:
    """Write all files of `locks/`."""
    files = {path.name: blocks(path.read_text(encoding="utf-8")) for path in LOCKS.glob("*.txt")}
    cpu = files.pop("torch-cpu.txt", [])
    project = ROOT / "pyproject.toml"
    kept = [block for file in files.values() for block in file]
    everything = compile_lock(project, kept, "--extra=dev", "--extra=docs", *options)
    backend = "\n".join(tomllib.loads(project.read_text(encoding="utf-8"))["build-system"]["requires"])
    build = {name_of(block) for block in compile_lock(backend, everything)}
    collector = {name_of(block) for block in compile_lock(project, everything, "--extra=collector")} - build
    torch = {name for name in map(name_of, everything) if name == "torch" or name.startswith(CUDA)}
    rest = {*map(name_of, everything)} - build - collector - torch
    for file, names in {"build": build, "collector": collector, "torch": torch, "develop": rest}.items():
        write(f"{file}.txt", [block for block in everything if name_of(block) in names])
    (version,) = (block.split()[0].partition("==")[2] for block in everything if name_of(block) == "torch")
    write("torch-cpu.txt", [cpu_build(version, cpu)])


if __name__ == "__main__":
    main(*sys.argv[1:])
