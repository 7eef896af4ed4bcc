"""Options that several commands share, and groups of options that a command takes as one object."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from dataclasses import MISSING, dataclass, fields, is_dataclass
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, Self, get_args, get_origin, get_type_hints

import typer

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")]
YesOption = Annotated[bool, typer.Option("--yes", help="Do not ask: for scripts.")]
PlaceArgument = Annotated[
    Path, typer.Argument(help="Folder of the collection, or its campaign alone, .json.", metavar="FOLDER")
]
StoreOption = Annotated[
    str | None,
    typer.Option(
        help="Database of the reports, sqlite:///FILE or postgresql://...; default: DATABASE_URL, or a file in FOLDER."
    ),
]
CollectionArgument = Annotated[Path, typer.Argument(help="Folder of the collection.", metavar="FOLDER")]
DeviceOption = Annotated[str, typer.Option(help="auto, cpu or cuda.")]
CollectorOption = Annotated[str, typer.Option(help="The collector's address: https, or http on this machine.")]
CapOption = Annotated[
    int | None, typer.Option(help="Histogram: neighbours that count for each class at most; protects whole lists.")
]


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Options that few people set: all are given by one option, `--set NAME=VALUE`, which may be repeated.

    A subclass declares its fields as any group of options does; several values of a field have commas between them.
    """

    @classmethod
    def read(cls, texts: Iterable[str]) -> Self:
        """Read settings; refuse a name that there is not, and a value of another kind.

        >>> from dataclasses import dataclass
        >>> @dataclass(frozen=True, kw_only=True)
        ... class Fit(Settings):
        ...     epochs: int = 100
        ...     homophily: list[float] | None = None
        >>> Fit.read(["epochs=50", "homophily=0.6,0.85"])
        Fit(epochs=50, homophily=[0.6, 0.85])
        """
        hints = get_type_hints(cls)
        given: dict[str, Any] = {}
        for text in texts:
            typed, equals, value = text.partition("=")
            name = typed.strip().replace("-", "_")
            if name not in hints or not equals:
                raise typer.BadParameter(f"--set {text}: write NAME=VALUE with one of the names {', '.join(hints)}")
            if name in given:
                raise typer.BadParameter(f"--set {name} is given twice: leave out one of them")
            given[name] = _read_value(name, hints[name], value.strip())
        return cls(**given)

    @classmethod
    def described(cls) -> str:
        """Return what the settings are and their defaults, as the help of `--set`."""
        options = _options_of(cls)
        return f"A setting, may be repeated. {'; '.join(map(_setting_in_words, options))}."


def _setting_in_words(option: inspect.Parameter) -> str:
    (declared,) = option.annotation.__metadata__
    default = "" if option.default is None else f"; default: {option.default}"
    return f"{option.name}: {declared.help.rstrip('.')}{default}".replace("; ", ", ")


_KINDS = {int: "a whole number", float: "a number"}


def _read_value(name: str, hint: Any, text: str) -> Any:
    kind = next(each for each in get_args(hint) if each is not NoneType) if NoneType in get_args(hint) else hint
    if get_origin(kind) is list:
        return [_read_value(name, get_args(kind)[0], each.strip()) for each in text.split(",")]
    try:
        return kind(text)
    except ValueError:
        raise typer.BadParameter(f"--set {name} is '{text}': give {_KINDS[kind]}") from None


def takes_groups(command: Callable[..., None]) -> Callable[..., None]:
    """Let a command take groups of options, each a frozen dataclass whose fields are `Annotated` options.

    typer reads a signature with one parameter for each field, in the place of the group, and the command gets the
    groups. Help, completion and messages are those of single options. A group of `Settings` is one option, `--set`.
    """
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {name: hint for name, hint in hints.items() if is_dataclass(hint)}
    parameters: list[inspect.Parameter] = []
    for parameter in inspect.signature(command).parameters.values():
        group = groups.get(parameter.name)
        if group is not None:
            parameters += [_set_option(parameter.name, group)] if issubclass(group, Settings) else _options_of(group)
        else:
            parameters.append(parameter.replace(annotation=hints[parameter.name], kind=parameter.KEYWORD_ONLY))

    @functools.wraps(command)
    def expanded(**given: Any) -> None:
        for name, group in groups.items():
            if issubclass(group, Settings):
                given[name] = group.read(given.pop(name) or ())
            else:
                given[name] = group(**{field.name: given.pop(field.name) for field in fields(group)})
        command(**given)

    expanded.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    expanded.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return expanded


def _set_option(name: str, group: type[Settings]) -> inspect.Parameter:
    """Return the parameter `--set` of a group of settings."""

    def complete(incomplete: str) -> list[str]:
        return [f"{each.name}=" for each in fields(group) if each.name.startswith(incomplete)]

    option = typer.Option("--set", metavar="NAME=VALUE", help=group.described(), autocompletion=complete)
    annotation = Annotated[list[str] | None, option]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


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
