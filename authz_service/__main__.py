"""`python -m authz_service` serves; `python -m authz_service migrate` brings the schema up to date."""

import sys

from authz_service.schema import SCHEMA
from authz_service.settings import Settings
from service_kit.db import migrate
from service_kit.settings import load


def main(arguments: list[str]) -> int:
    """The exit code."""
    settings = load(Settings)
    if arguments == ["migrate"]:
        return migrate.main(settings, SCHEMA)
    # What serves takes long to load, and migrating waits for none of it.
    from authz_service.main import build  # noqa: PLC0415
    from service_kit.rpc import server  # noqa: PLC0415

    return server.run("authz", settings, build)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
