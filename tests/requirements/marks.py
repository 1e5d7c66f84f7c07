"""The marks of the suite, read from its source: nothing of it is imported."""

import ast
from collections.abc import Iterator
from pathlib import Path

__all__ = ["TESTS", "marks"]

TESTS = Path(__file__).parents[1]


def marks() -> dict[str, list[str]]:
    """By requirement the tests that carry its id, as ``tests/….py::name``."""
    found: dict[str, set[str]] = {}
    for file in sorted(TESTS.rglob("*.py")):
        text = file.read_text(encoding="utf-8")
        if "mark.requirement(" not in text:
            continue
        name = file.relative_to(TESTS.parent).as_posix()
        for test, ident in _marked(ast.parse(text, str(file))):
            found.setdefault(ident, set()).add(f"{name}::{test}")
    return {ident: sorted(tests) for ident, tests in found.items()}


def _marked(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Test and id of each mark. A mark that decorates no test has a name that no test has."""
    calls = {node for node in ast.walk(tree) if isinstance(node, ast.Call) and _is_mark(node.func)}
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            for decorator in function.decorator_list:
                for call in calls & {*ast.walk(decorator)}:
                    calls.remove(call)
                    yield from ((function.name, _text(one)) for one in call.args)
    for call in calls:
        yield from ((f"line {call.lineno}", _text(one)) for one in call.args)


def _is_mark(function: ast.expr) -> bool:
    return ast.unparse(function) == "pytest.mark.requirement"


def _text(argument: ast.expr) -> str:
    return (
        argument.value
        if isinstance(argument, ast.Constant) and isinstance(argument.value, str)
        else "no text"
    )
