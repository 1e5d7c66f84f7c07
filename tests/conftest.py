"""What every test can ask for: a Postgres and a Redis, a database for each service, the whole product."""

pytest_plugins = [
    "tests.fixtures.parts",
    "tests.fixtures.databases",
    "tests.fixtures.issuer",
    "tests.fixtures.spans",
    "tests.fixtures.stack",
]
