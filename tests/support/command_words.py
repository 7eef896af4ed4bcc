"""Commands as they are typed, from the names and values of their options."""

from __future__ import annotations

_SETTINGS = (
    *("backbone", "clusters", "epochs", "feature_hops", "hold_out", "label_hops", "llp_weight", "memory"),
    *("plausible", "rounds", "seed", "tables", "coverage", "certain"),
)
_NAMELESS = ("campaign", "folder")


def words_of(command: str, **options: object) -> list[str]:
    """Return a command with its options: the campaign in the place of the folder, and settings by `--set`.

    >>> words_of("train", campaign="c.json", out="model", epochs=3)
    ['train', 'c.json', '--out', 'model', '--set', 'epochs=3']
    """
    return [command, *(word for name, value in options.items() for word in _typed(name, value))]


def _typed(name: str, value: object) -> list[str]:
    if name in _NAMELESS:
        return [str(value)]
    return ["--set", f"{name}={value}"] if name in _SETTINGS else [f"--{name.replace('_', '-')}", str(value)]
