"""The command line application: its commands, and the exit code and message of a command that fails."""

from __future__ import annotations

import atexit
import gc
import sys
from collections.abc import Sequence
from errno import ENOSPC
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import typer

import veilgraph
from veilgraph.cli._common import echo, needs_extra
from veilgraph.cli.account import account
from veilgraph.cli.audit_log import audit_log
from veilgraph.cli.copies import backup, restore
from veilgraph.cli.data import data
from veilgraph.cli.deadlines import close, extend
from veilgraph.cli.doctor import doctor
from veilgraph.cli.estimate import estimate
from veilgraph.cli.former import what_replaced
from veilgraph.cli.generate import generate
from veilgraph.cli.init import init
from veilgraph.cli.invite import invite
from veilgraph.cli.model import predict, train
from veilgraph.cli.open_round import open_round
from veilgraph.cli.paper import paper
from veilgraph.cli.participant import fetch, randomize, submit
from veilgraph.cli.plan import plan
from veilgraph.cli.purge import purge
from veilgraph.cli.receipt import receipt
from veilgraph.cli.rehearse import rehearse
from veilgraph.cli.review import review
from veilgraph.cli.rights import withdraw
from veilgraph.cli.rotate_token import rotate_token
from veilgraph.cli.run import run
from veilgraph.cli.serve import serve
from veilgraph.cli.shard import shard
from veilgraph.cli.status import status
from veilgraph.errors import VeilgraphError

# Base class of errors in the arguments; typer exports only subclasses of it.
_UsageError: type[Exception] = typer.BadParameter.__mro__[1]

# Exit code of a command that was interrupted, by the shell's convention.
_INTERRUPTED = 130
_NOT_RESUMABLE = {
    *(
        (each,)
        for each in ("init", "rehearse", "invite", "status", "plan", "predict", "estimate", "shard", "open-round")
    ),
    *((each,) for each in ("backup", "restore")),
    ("lab", "generate"),
}
"""Commands that keep no partial results."""

_STOPPED = {
    True: "stopped; what was finished is kept, and the same command goes on from there; else it begins again",
    False: "stopped; nothing is kept: run the same command again",
}
_OUT_OF_MEMORY = {
    True: "memory ran out; what was finished is kept: run the same command again with less memory or fewer jobs "
    "where it has these settings, or on a machine with more",
    False: "memory ran out: use a machine with more",
}
"""Messages by whether a command keeps what it finished."""

app = typer.Typer(
    name="veilgraph",
    help="Graph neural networks on data that people randomized before anyone collected it.",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
# The order of `veilgraph --help`: collect and learn, look after a collection, plan and check, take part.
for command in (
    init,
    rehearse,
    serve,
    invite,
    status,
    train,
    predict,
    estimate,
    review,
    close,
    extend,
    open_round,
    backup,
    restore,
    rotate_token,
    withdraw,
    purge,
    audit_log,
    run,
    plan,
    account,
    fetch,
    randomize,
    submit,
    receipt,
    shard,
    doctor,
):
    app.command()(command)
lab_app = typer.Typer(help="Simulated studies: the paper's tables and figures, public graphs, large generated graphs.")
for command in (paper, data, generate):
    lab_app.command()(command)
app.add_typer(lab_app, name="lab")


def _show_version(wanted: bool) -> None:
    if wanted:
        echo(veilgraph.__version__)
        raise typer.Exit


@app.callback()
def options(
    imports: Annotated[
        list[Path] | None,
        typer.Option(
            "--import",
            help="A Python file of your own to run first; it registers methods or data sets. May be repeated.",
        ),
    ] = None,
    version: bool = typer.Option(False, "--version", callback=_show_version, is_eager=True, help="Print the version."),
) -> None:
    """Graph neural networks on data that people randomized before anyone collected it."""
    if imports:
        with needs_extra("server"):
            from veilgraph.models.plugins import import_files
        import_files(imports)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code; an error is one line on standard error and exit code 2."""
    arguments = list(sys.argv[1:] if arguments is None else arguments) or ["--help"]
    # The interpreter would search all of torch for garbage before it ends, for half a second.
    atexit.register(gc.freeze)
    if replaced := what_replaced(arguments):
        return _fail(replaced)
    return run_app(app, arguments, resumable=is_resumable(arguments))


def is_resumable(arguments: Sequence[str]) -> bool:
    """Return whether a command keeps what it finished when it is stopped.

    >>> is_resumable(["lab", "paper", "table1"]), is_resumable(["--import", "mine.py", "plan"])
    (True, False)
    """
    words = list(arguments)
    while words[:1] == ["--import"]:
        words = words[2:]
    return not any(tuple(words[: len(command)]) == command for command in _NOT_RESUMABLE)


@cache
def parser_of(app: typer.Typer) -> Any:
    """Return the parser of an application. Typer would build it for every call, from the types of all parameters."""
    return typer.main.get_command(app)


def run_app(app: typer.Typer, arguments: Sequence[str], *, program: str = "veilgraph", resumable: bool = True) -> int:
    """Run a command of an application and return its exit code.

    Args:
        app: the application.
        arguments: the arguments after the name of the program.
        program: the name of the program.
        resumable: whether an interrupted command keeps what it finished.
    """
    try:
        code = parser_of(app)(args=list(arguments), prog_name=program, standalone_mode=False)
    except VeilgraphError as error:
        return _fail(str(error))
    except _UsageError as error:
        return _fail(f"{_explain(error, list(arguments))} See {_help_of(error, program)}.")
    except OSError as error:
        return _fail(_about_file(error))
    except (MemoryError, RuntimeError) as error:
        if not _is_lack_of_memory(error):
            raise
        return _fail(_OUT_OF_MEMORY[resumable])
    except (KeyboardInterrupt, typer.Abort):
        code = _INTERRUPTED
    if code == _INTERRUPTED:
        echo(_STOPPED[resumable], err=True)
    return code if isinstance(code, int) else 0


def _about_file(error: OSError) -> str:
    """Say what is wrong with a file; a full disk has no name, and one error for each file of a copied folder."""
    if f"[Errno {ENOSPC}]" in str(error):
        return "the disk is full: make room on it, and run the same command again"
    return f"{error.filename or 'a file'}: {error.strerror or error}"


def _is_lack_of_memory(error: Exception) -> bool:
    """Return whether numpy, a GPU or torch ran out of memory. On a CPU, torch has no error class for that."""
    lacking = isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"
    return lacking or "can't allocate memory" in str(error)


def _explain(error: Exception, arguments: list[str]) -> str:
    """Return the message of typer with the given value, which typer leaves out, and with what a command needs."""
    message = str(getattr(error, "format_message", error.__str__)()).rstrip(".")
    options = getattr(getattr(error, "param", None), "opts", [])
    given = [
        argument.partition("=")[2] if "=" in argument else following
        for argument, following in zip(arguments, [*arguments[1:], ""], strict=True)
        if argument.partition("=")[0] in options
    ]
    context = getattr(error, "ctx", None)
    if message.startswith("Missing") and context is not None:
        message += f": {context.command_path} {_needed_by(context.command)}"
    value = f" (given: {given[-1]})" if given else ""
    return f"{message}{value}{'' if message.endswith('?') else '.'}"


def _needed_by(command: Any) -> str:
    """Return how the required options and arguments of a command are written, or the commands of a group."""
    if names := getattr(command, "commands", {}):
        return "|".join(names)
    required = [parameter for parameter in command.params if parameter.required]
    values = [parameter.metavar or parameter.name.upper() for parameter in required]
    options = [f"{each.opts[0]} " if each.opts[0].startswith("-") else "" for each in required]
    return " ".join(option + value for option, value in zip(options, values, strict=True))


def _help_of(error: Exception, program: str) -> str:
    """Return the command that explains the command with a mistake."""
    return f"{getattr(getattr(error, 'ctx', None), 'command_path', program)} --help"


def _fail(message: str) -> int:
    echo(f"error: {' '.join(message.split())}", err=True)
    return 2
