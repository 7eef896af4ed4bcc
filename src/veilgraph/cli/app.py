"""The commands, and what happens when one fails."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import typer

import veilgraph
from veilgraph.cli.campaign import campaign_app
from veilgraph.cli.data import data_app
from veilgraph.cli.model import predict, train
from veilgraph.cli.paper import paper_app
from veilgraph.cli.participant import randomize, submit
from veilgraph.cli.plan import plan
from veilgraph.cli.privacy import account, audit, schema_app
from veilgraph.cli.run import run
from veilgraph.cli.serve import serve
from veilgraph.cli.tune import tune
from veilgraph.errors import VeilgraphError

# Every complaint about the command line itself derives from this; typer exports only its best-known child.
_UsageError: type[Exception] = typer.BadParameter.__mro__[1]

# Exit code of a command that was interrupted, by the shell's convention.
_STOPPED = 130
_KEPT = "stopped; what was finished is kept, and the same command goes on from there"
_NOTHING_KEPT = "stopped; nothing is kept: run the same command again"
_STARTS_OVER = {"plan"}
"""Commands whose partial results are not kept."""

_LESS = (
    "memory ran out; what was finished is kept: run the same command again with less --memory or fewer --jobs where it "
    "has them, or on a machine with more"
)
_MORE = "memory ran out: use a machine with more"

app = typer.Typer(
    name="veilgraph",
    help="Graph neural networks on data that people randomized before anyone collected it.",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
# As they are listed to people: try it, account for it, plan, collect and train, study.
for command in (run, account, audit, plan, randomize, submit, serve, train, predict, tune):
    app.command()(command)
for group, name in (
    (schema_app, "schema"),
    (campaign_app, "campaign"),
    (data_app, "data"),
    (paper_app, "paper"),
):
    app.add_typer(group, name=name)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(veilgraph.__version__)
        raise typer.Exit


@app.callback()
def options(
    version: bool = typer.Option(False, "--version", callback=_show_version, is_eager=True, help="Print the version."),
) -> None:
    """Graph neural networks on data that people randomized before anyone collected it."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command; a mistake ends with one line on standard error and exit code 2."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    return run_app(app, arguments or ["--help"], starts_over="".join(arguments[:1]) in _STARTS_OVER)


def run_app(app: typer.Typer, arguments: Sequence[str], *, program: str = "veilgraph", starts_over: bool) -> int:
    """Runs the command of an app that the arguments name, and returns its exit code.

    Args:
        app: the commands.
        arguments: the words after the program's name.
        program: its name.
        starts_over: whether an interrupted command keeps nothing.
    """
    try:
        code = app(args=list(arguments), prog_name=program, standalone_mode=False)
    except VeilgraphError as error:
        return _fail(str(error))
    except _UsageError as error:
        return _fail(f"{_explain(error, list(arguments))}. See {program} --help.")
    except OSError as error:
        return _fail(f"{error.filename or 'a file'}: {error.strerror or error}")
    except (MemoryError, RuntimeError) as error:
        if not _is_lack_of_memory(error):
            raise
        return _fail(_MORE if starts_over else _LESS)
    except (KeyboardInterrupt, typer.Abort):
        code = _STOPPED
    if code == _STOPPED:
        typer.echo(_NOTHING_KEPT if starts_over else _KEPT, err=True)
    return code if isinstance(code, int) else 0


def _is_lack_of_memory(error: Exception) -> bool:
    """Of numpy, of a GPU, or of torch on a processor, which has no class of its own for it."""
    lacking = isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"
    return lacking or "can't allocate memory" in str(error)


def _explain(error: Exception, arguments: list[str]) -> str:
    """What typer says, with the value that it leaves out."""
    message = str(getattr(error, "format_message", error.__str__)()).rstrip(".")
    options = getattr(getattr(error, "param", None), "opts", [])
    given = [
        argument.partition("=")[2] if "=" in argument else following
        for argument, following in zip(arguments, [*arguments[1:], ""], strict=True)
        if argument.partition("=")[0] in options
    ]
    return f"{message}{f' (given: {given[-1]})' if given else ''}"


def _fail(message: str) -> int:
    typer.echo(f"error: {' '.join(message.split())}", err=True)
    return 2
