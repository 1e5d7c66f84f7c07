"""The product's own source, parsed once for every rule."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("service_kit", "gateway", "authz_service", "memory_service", "runner_service", "provider_workers")


@dataclass(frozen=True)
class Module:
    """One module: its path from the root, its text and its tree."""

    path: str
    text: str
    tree: ast.Module

    def functions(self) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
        """Every function with its name in the module (``Class.method``, ``outer.inner``)."""
        yield from _functions(self.tree, "")

    def owner(self, node: ast.AST) -> str:
        """The name of the innermost function around a node, ``<module>`` outside any."""
        around = [
            (function.lineno, name)
            for name, function in self.functions()
            if function.lineno <= getattr(node, "lineno", 0) <= (function.end_lineno or 0)
        ]
        return max(around)[1] if around else "<module>"


def _functions(node: ast.AST, prefix: str) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield prefix + child.name, child
            yield from _functions(child, f"{prefix}{child.name}.")
        elif isinstance(child, ast.ClassDef):
            yield from _functions(child, f"{prefix}{child.name}.")
        else:
            yield from _functions(child, prefix)


@cache
def modules() -> tuple[Module, ...]:
    """Every module of the product that is written by hand."""
    files = (file for package in PACKAGES for file in sorted((ROOT / package).rglob("*.py")))
    return tuple(_module(file) for file in files if "_pb2" not in file.name)


@cache
def checks() -> tuple[Module, ...]:
    """Every module of the tests."""
    return tuple(_module(file) for file in sorted((ROOT / "tests").rglob("*.py")))


def _module(file: Path) -> Module:
    text = file.read_text(encoding="utf-8")
    return Module(file.relative_to(ROOT).as_posix(), text, ast.parse(text, str(file)))
