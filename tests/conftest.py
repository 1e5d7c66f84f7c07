"""What every test can ask for: a Postgres and a Redis, a database for each service, the whole product."""

import os

import pytest

# What a test starts is bound to this process by a fork, and gRPC's own handlers, which then run in the child,
# crash it now and then where a server of ours is at work in here. Read when gRPC is imported.
os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"

pytest_plugins = [
    "tests.fixtures.parts",
    "tests.fixtures.databases",
    "tests.fixtures.issuer",
    "tests.fixtures.spans",
    "tests.fixtures.stack",
]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files with slow tests first: one that is begun last would be waited for alone."""
    slow = {item.path for item in items if item.get_closest_marker("slow") is not None}
    items.sort(key=lambda item: item.path not in slow)
