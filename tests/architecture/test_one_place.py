"""What is done in one place only: reading the environment, ending transactions, catching everything."""

import ast

import pytest

from tests.architecture.source import Module, modules

ENVIRONMENT = (
    "service_kit/settings.py",
    "service_kit/cli/",
    "service_kit/embedded/",
    "provider_workers/__init__.py",
)
"""The one reader of settings, the program that makes the environments of the processes it starts, and the place
that says to gRPC what can be said to it in no other way.
"""

TRANSACTIONS = ("service_kit/db/",)

BROAD_EXCEPTS = {
    "authz_service/domain/refusals.py:Refusals._write": "a refusal stays a refusal, whatever becomes of its record",
    "authz_service/store/batch.py:Batcher._work_off": "every question asked together gets an answer, whatever happened",
    "gateway/edge.py:_Exchange.serve": "the edge of the process: HTTP",
    "gateway/limits.py:RedisBuckets._work": "everybody who waits gets an answer, whatever happened",
    "gateway/main.py:run": "the edge of the process: main",
    "provider_workers/adapters/native/derivation.py:Derivation._read": "one poisoned episode fails alone",
    "runner_service/agent_loop/loop.py:_Trouble.caught": "an agent runtime raises what it likes; unknown is raised on",
    "runner_service/domain/turns.py:Turns._drive": "the edge to an agent runtime: its turn ends failed, not the runner",
    "runner_service/tools/server.py:ToolServer._call": "the edge to an agent: it is told that the tool failed",
    "service_kit/rpc/health.py:is_ready": "whatever keeps a service from being ready, the answer is no",
    "service_kit/rpc/interceptors/__init__.py:Chassis._around.wrapped": "the edge of the process: RPC",
    "service_kit/rpc/server.py:run": "the edge of the process: main",
}
"""Where everything may be caught and kept, and why. To watch it pass (a bare ``raise`` at the end) is free."""


def everywhere(*, outside: tuple[str, ...] = ()) -> list[Module]:
    return [module for module in modules() if not module.path.startswith(outside or ("?",))]


def _reads_environment(node: ast.AST) -> bool:
    match node:
        case ast.Attribute(value=ast.Name(id="os"), attr="environ" | "getenv" | "environb" | "putenv"):
            return True
        case ast.ImportFrom(module="os", names=names):
            return any(name.name in ("environ", "getenv") for name in names)
        case _:
            return False


def test_the_environment_is_read_in_one_place():
    found = [
        f"{module.path}:{getattr(node, 'lineno', 0)}"
        for module in everywhere(outside=ENVIRONMENT)
        for node in ast.walk(module.tree)
        if _reads_environment(node)
    ]
    assert not found, f"settings come through service_kit.settings: {found}"


def test_only_the_database_room_ends_transactions():
    found = [
        f"{module.path}:{node.lineno}"
        for module in everywhere(outside=TRANSACTIONS)
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in ("commit", "rollback")
    ]
    assert not found, f"a transaction ends where database.begin() does: {found}"


def _is_broad(handler: ast.ExceptHandler) -> bool:
    caught = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(
        one is None or (isinstance(one, ast.Name) and one.id in ("Exception", "BaseException"))
        for one in caught
    )


def _passes_on(handler: ast.ExceptHandler) -> bool:
    last = handler.body[-1]
    return isinstance(last, ast.Raise) and last.exc is None


def _broad_excepts() -> set[str]:
    return {
        f"{module.path}:{module.owner(node)}"
        for module in modules()
        for node in ast.walk(module.tree)
        if isinstance(node, ast.ExceptHandler) and _is_broad(node) and not _passes_on(node)
    }


def test_everything_is_caught_only_where_a_reason_is_written():
    assert not _broad_excepts() - BROAD_EXCEPTS.keys()


def test_no_reason_outlives_its_except():
    assert not BROAD_EXCEPTS.keys() - _broad_excepts()


@pytest.mark.parametrize("code", ["try: f()\nexcept: pass", "try: f()\nexcept (KeyError, Exception): pass"])
def test_the_rule_sees_every_form_of_a_broad_except(code: str):
    assert any(_is_broad(node) for node in ast.walk(ast.parse(code)) if isinstance(node, ast.ExceptHandler))
