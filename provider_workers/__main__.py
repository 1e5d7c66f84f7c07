"""`python -m provider_workers` serves; `python -m provider_workers migrate` brings the schema up to date."""

import sys

from provider_workers.main import SCHEMA, build
from provider_workers.settings import Settings
from service_kit.db import migrate
from service_kit.rpc import server
from service_kit.settings import load


def main(arguments: list[str]) -> int:
    """The exit code."""
    settings = load(Settings)
    if arguments == ["migrate"]:
        return migrate.main(settings, SCHEMA)
    return server.run("provider", settings, build)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
