"""``python -m service_kit.cli.settings_docs``: write docs/settings.md from the settings classes.

The services' classes are looked up by name, so that the chassis does not stand on what stands on it.
"""

import argparse
import importlib
import sys
import types
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import Final, Literal, Union, cast, get_args, get_origin

from pydantic import SecretStr
from pydantic.fields import FieldInfo

from service_kit.embedded.services import SERVICES
from service_kit.embedded.settings import UpSettings
from service_kit.settings import (
    AgentSettings,
    EmbeddingSettings,
    ModelSettings,
    ObjectSettings,
    RelaySettings,
    Settings,
)

__all__ = ["document", "main"]

_INTRO: Final = """\
# Settings

Every setting is an environment variable, read once when a process starts. This page is written by
`make gen` from the classes that read them. An empty variable counts as not set. Secrets are never logged.

With `make run` (or `grove up`) nothing has to be set: addresses, keys, tokens and the URLs of the database
and Redis are found or made and handed to each service. What you set yourself, in the environment of
`make run`, is passed on to every service.
"""

_SECTIONS: Final[tuple[tuple[str, str, type[Settings]], ...]] = (
    ("Everything", "Common to every process.", Settings),
    ("Chat model", "For the `loop` base, in the runner.", ModelSettings),
    (
        "Models for agents that are programs",
        "For the runner, which calls models for them. An API without an endpoint is not offered.",
        RelaySettings,
    ),
    ("Embeddings", "For the `native` provider. Unset, the embedded encoder is used.", EmbeddingSettings),
    ("Files", "For the gateway, memory_service and provider_workers.", ObjectSettings),
    ("Agents that are programs", "For the runner, and for `grove base` and `grove doctor`.", AgentSettings),
    ("The `grove` command", "Of `grove up` and the other commands.", UpSettings),
)


def document() -> str:
    """The page."""
    shown: dict[str, FieldInfo] = {}
    parts = [_INTRO]
    for title, about, kind in _SECTIONS:
        parts.append(_section(title, about, kind, shown))
        shown |= {} if kind is UpSettings else kind.model_fields  # the services do not share it
    for service in SERVICES.values():
        kind = _class_of(service.package)
        if any(_is_new(name, info, shown) for name, info in kind.model_fields.items()):
            parts.append(_section(f"`{service.package}`", _first_line(kind), kind, shown))
    return "\n".join(parts)


def _class_of(package: str) -> type[Settings]:
    """The settings class a service defines: the last one, when it builds one on another."""
    module = importlib.import_module(f"{package}.settings")
    found = [
        one
        for one in vars(module).values()
        if isinstance(one, type) and issubclass(one, Settings) and one.__module__ == module.__name__
    ]
    if not found:
        raise LookupError(f"{package}.settings defines no settings")
    return found[-1]


def _first_line(kind: type) -> str:
    return (kind.__doc__ or "").strip().split("\n\n")[0].replace("\n", " ").replace("``", "`")


def _section(title: str, about: str, kind: type[Settings], shown: Mapping[str, FieldInfo]) -> str:
    rows = [
        f"| `{kind.variable(name)}` | {_type(info)} | {_default(info)} | {_cell(info.description or '')} |"
        for name, info in kind.model_fields.items()
        if _is_new(name, info, shown)
    ]
    head = [f"## {title}", "", about, "", "| Variable | Takes | Default | Meaning |", "|---|---|---|---|"]
    return "\n".join([*head, *rows, ""])


def _is_new(name: str, info: FieldInfo, shown: Mapping[str, FieldInfo]) -> bool:
    """Whether a class adds the setting or means something else by it than what was shown."""
    known = shown.get(name)
    return known is None or (known.default, known.description) != (info.default, info.description)


def _default(info: FieldInfo) -> str:
    value = cast("object", info.get_default(call_default_factory=False))
    if info.is_required():
        return "required"
    if value is None or value == "":
        return ""
    if isinstance(value, SecretStr):
        return "a secret"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, tuple | list | set | frozenset):
        return f"`{','.join(map(str, cast('Iterable[object]', value)))}`"
    return f"`{value.value if isinstance(value, Enum) else value}`"


def _type(info: FieldInfo) -> str:
    told = _kind(info.annotation)
    limits = {
        sign: limit
        for part in cast("Sequence[object]", info.metadata)
        for sign, name in (("≥", "ge"), (">", "gt"), ("≤", "le"), ("<", "lt"))
        if (limit := cast("object", getattr(part, name, None))) is not None
    }
    return " ".join([told, ", ".join(f"{sign} {limit}" for sign, limit in limits.items())]).strip()


_NAMES: Final[dict[object, str]] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "text",
    SecretStr: "a secret",
    Path: "a path",
}


def _kind(annotation: object) -> str:
    origin: object = get_origin(annotation)
    arguments = cast("tuple[object, ...]", get_args(annotation))
    if origin is Union or origin is types.UnionType:
        return " or ".join(_kind(one) for one in arguments if one is not type(None))
    if origin is Literal:
        return ", ".join(f"`{one}`" for one in arguments)
    if isinstance(origin, type) and issubclass(origin, tuple | list | set | frozenset):
        return "a list"
    return _NAMES.get(annotation, getattr(annotation, "__name__", str(annotation)))


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def main(arguments: Sequence[str]) -> int:
    """Write the page, or with ``--check`` say whether it is current."""
    parser = argparse.ArgumentParser(description=_first_line(type("_", (), {"__doc__": __doc__})))
    parser.add_argument("--out", type=Path, default=Path("docs/settings.md"))
    parser.add_argument(
        "--check", action="store_true", help="write nothing; exit 1 when the file is not current"
    )
    options = parser.parse_args(arguments)
    out, text = cast("Path", options.out), document()
    if cast("bool", options.check):
        if out.exists() and out.read_text(encoding="utf-8") == text:
            return 0
        print(f"{out} is not current, run `make gen`", file=sys.stderr)
        return 1
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
