"""Options that several commands share, and groups of options that a command takes as one object."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")]
YesOption = Annotated[bool, typer.Option("--yes", help="Do not ask: for scripts.")]
StoreOption = Annotated[str, typer.Option(help="Store of the reports: sqlite:///FILE or postgresql://...")]
CampaignArgument = Annotated[Path, typer.Argument(help="A campaign, .json.", metavar="CAMPAIGN")]
CollectionArgument = Annotated[Path, typer.Argument(help="Folder of the collection.", metavar="FOLDER")]
EdgelessNodesOption = Annotated[
    Path | None, typer.Option(help="Node table with a column 'id', for nodes without edges.")
]
PublicGraphOption = Annotated[
    Path, typer.Option(help="Public graph of the campaign: edge table, .csv or .parquet, or folder of shards.")
]
MemoryOption = Annotated[str, typer.Option(help="Memory of a process for its arrays: 8GiB, 500MB.")]
DeviceOption = Annotated[str, typer.Option(help="auto, cpu or cuda.")]
CollectorOption = Annotated[str, typer.Option(help="The collector's address: https, or http on this machine.")]
AttemptsOption = Annotated[
    int, typer.Option(help="Maximum number of attempts if the collector is busy or cannot be reached.", min=1)
]
CapOption = Annotated[
    int | None, typer.Option(help="Histogram: neighbours that count for each class at most; protects whole lists.")
]
FetchedDataOption = Annotated[Path | None, typer.Option(help="Folder of fetched data sets, and of your own.")]
SeriesTablesOption = Annotated[
    Path | None, typer.Option(help="Private neighbours: folder of 'neighbours publish'; its newest wave is taken.")
]


def takes_groups(command: Callable[..., None]) -> Callable[..., None]:
    """Let a command take groups of options, each a frozen dataclass whose fields are `Annotated` options.

    typer reads a signature with one parameter for each field, in the place of the group, and the command gets the
    groups. Help, completion and messages are those of single options.
    """
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {name: hint for name, hint in hints.items() if is_dataclass(hint)}
    parameters: list[inspect.Parameter] = []
    for parameter in inspect.signature(command).parameters.values():
        if parameter.name in groups:
            parameters += _options_of(groups[parameter.name])
        else:
            parameters.append(parameter.replace(annotation=hints[parameter.name], kind=parameter.KEYWORD_ONLY))

    @functools.wraps(command)
    def expanded(**given: Any) -> None:
        for name, group in groups.items():
            given[name] = group(**{field.name: given.pop(field.name) for field in fields(group)})
        command(**given)

    expanded.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    expanded.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return expanded


def _options_of(group: Any) -> list[inspect.Parameter]:
    """Return a parameter for each field of a group."""
    hints = get_type_hints(group, include_extras=True)
    return [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if field.default is MISSING else field.default,
            annotation=hints[field.name],
        )
        for field in fields(group)
    ]
