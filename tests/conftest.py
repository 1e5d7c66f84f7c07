"""What every test can ask for: a Postgres and a Redis, a database for each service, the whole product."""

import os

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
