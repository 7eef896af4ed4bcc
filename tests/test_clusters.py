"""The examples for Slurm and Kubernetes in deploy/: their syntax, what they start, and that both start the same."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import typer

from veilgraph.cli.app import app

DEPLOY = Path(__file__).parents[1] / "deploy"
SLURM, KUBERNETES = DEPLOY / "train.sbatch", DEPLOY / "train.pytorchjob.yaml"
REPLICA = {"replicas", "restartPolicy", "template"}
CONTAINER = {"name", "image", "command", "args", "env", "resources", "securityContext", "volumeMounts"}
SPEC = {"nprocPerNode", "runPolicy", "pytorchReplicaSpecs"}
"""Fields of the operator's and of Kubernetes' schema that the example uses. Kubernetes refuses a field it lacks."""


def read_job() -> dict[str, Any]:
    yaml = pytest.importorskip("yaml")
    job: dict[str, Any] = yaml.safe_load(KUBERNETES.read_text(encoding="utf-8"))
    return job


def launched(words: list[str]) -> tuple[Any, dict[str, Any]]:
    """Return how torchrun reads its own options, and how `veilgraph train` reads the others."""
    run = pytest.importorskip("torch.distributed.run")
    options = run.get_args_parser().parse_args(words)
    assert options.module
    assert options.training_script == "veilgraph"
    name, *rest = options.training_script_args
    command = typer.main.get_command(app).commands[name]  # type: ignore[attr-defined]
    return options, dict(command.make_context(name, list(rest)).params)


def slurm_command(tmp_path: Path, *, machines: int) -> list[str]:
    """Run the script with programs in the place of Slurm's, and return what srun would start."""
    bash = shutil.which("bash")
    assert bash is not None
    stubs = {"scontrol": 'echo "machine1"; echo "machine2"', "srun": 'printf "%s\\n" "$@"'}
    for name, line in stubs.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{line}\n", encoding="utf-8")
        (tmp_path / name).chmod(0o755)
    environment = {
        "PATH": f"{tmp_path}:/usr/bin:/bin",
        "SLURM_SUBMIT_DIR": "/data",
        "SLURM_CPUS_PER_TASK": "16",
        "SLURM_JOB_NODELIST": "machine[1-2]",
        "SLURM_JOB_NUM_NODES": str(machines),
        "SLURM_JOB_ID": "7",
    }
    subprocess.run([bash, "-n", str(SLURM)], check=True)
    done = subprocess.run([bash, str(SLURM)], check=True, capture_output=True, text=True, env=environment)
    return done.stdout.splitlines()


def test_slurm_starts_torchrun_on_every_machine(tmp_path: Path) -> None:
    words = slurm_command(tmp_path, machines=64)
    assert words[:2] == ["--kill-on-bad-exit=1", "torchrun"]
    options, train = launched(words[2:])
    assert (options.nnodes, options.nproc_per_node) == ("64", "8")
    assert (options.rdzv_backend, options.rdzv_endpoint, options.rdzv_id) == ("c10d", "machine1:29500", "7")
    assert str(train["graph"]) == "/data/shards"  # some versions of the parser make it a path later


def test_slurm_asks_for_one_task_on_each_machine() -> None:
    asked = [line.split("--")[1] for line in SLURM.read_text(encoding="utf-8").splitlines() if "#SBATCH" in line]
    given = dict(each.partition("=")[::2] for each in asked)
    assert given["ntasks-per-node"] == "1"
    assert {"nodes", "cpus-per-task", "mem", "time"} <= given.keys()


def test_kubernetes_has_the_fields_of_the_operators_schema() -> None:
    job = read_job()
    assert (job["apiVersion"], job["kind"]) == ("kubeflow.org/v1", "PyTorchJob")
    assert job.keys() == {"apiVersion", "kind", "metadata", "spec"}
    assert job["spec"].keys() == SPEC
    assert isinstance(job["spec"]["nprocPerNode"], str)  # the schema has a string here
    assert job["spec"]["pytorchReplicaSpecs"].keys() == {"Master", "Worker"}
    for replica in job["spec"]["pytorchReplicaSpecs"].values():
        assert replica.keys() == REPLICA
        assert replica["template"].keys() == {"spec"}
        (container,) = replica["template"]["spec"]["containers"]
        assert container.keys() == CONTAINER
        assert container["name"] == "pytorch"  # the operator looks for this name
        assert {mount["name"] for mount in container["volumeMounts"]} == {
            volume["name"] for volume in replica["template"]["spec"]["volumes"]
        }
        assert all(isinstance(variable["value"], str) for variable in container["env"])
    assert job["spec"]["pytorchReplicaSpecs"]["Master"]["replicas"] == 1


def test_both_start_the_same_training(tmp_path: Path) -> None:
    job = read_job()["spec"]
    (container,) = job["pytorchReplicaSpecs"]["Master"]["template"]["spec"]["containers"]
    torchrun, *words = container["command"] + container["args"]
    assert torchrun == "torchrun"
    options, train = launched(words)
    machines = sum(replica["replicas"] for replica in job["pytorchReplicaSpecs"].values())
    slurm, expected = launched(slurm_command(tmp_path, machines=machines)[2:])
    assert train == expected
    assert job["nprocPerNode"] == slurm.nproc_per_node
    assert str(machines) == slurm.nnodes
    assert options.max_restarts == slurm.max_restarts


def test_the_image_of_the_job_is_named_by_its_digest() -> None:
    """Reports are read by what runs there: a tag can be another image tomorrow."""
    replicas = read_job()["spec"]["pytorchReplicaSpecs"].values()
    images = {each["image"] for replica in replicas for each in replica["template"]["spec"]["containers"]}
    assert images == {"registry.example.org/veilgraph@sha256:DIGEST"}
