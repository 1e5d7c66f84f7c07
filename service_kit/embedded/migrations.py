"""Which schemas still have to be brought to this release.

Asking a service to migrate starts it, which costs seconds. So what was migrated is remembered by the
fingerprint of what defines it, and believed only if the database, asked as the service, confirms it.
"""

import hashlib
import importlib.util
import json
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Final, cast

import psycopg

from service_kit.embedded.home import product_version, write_private
from service_kit.embedded.services import Deployment, Service

__all__ = ["files", "pending", "remember"]

_CONNECT_S: Final = 10


def pending(deployment: Deployment) -> list[Service]:
    """The services that run here and whose schemas are not known to be current."""
    known = _read(_file(deployment))
    return [one for one in deployment.storing() if not _current(deployment, one, known.get(one.name))]


def remember(deployment: Deployment, migrated: Sequence[Service]) -> None:
    """Keep in mind that these are current now."""
    file = _file(deployment)
    fresh = {one.name: _fingerprint(one) for one in migrated}
    write_private(file, json.dumps({**_read(file), **fresh}) + "\n")


def _file(deployment: Deployment) -> Path:
    return deployment.home.run / "migrated.json"


def _current(deployment: Deployment, service: Service, known: str | None) -> bool:
    return known == _fingerprint(service) and _names(service) <= _applied(deployment, service)


def _fingerprint(service: Service) -> str:
    """Of the release, the service's migrations and what else its schema needs."""
    digest = hashlib.sha256()
    for part in (product_version(), metadata.version("procrastinate")):
        digest.update(part.encode())
    package = _directory(service)
    for file in (package / "schema.py", *files(package)):
        digest.update(file.name.encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()


def _names(service: Service) -> set[str]:
    return {file.name for file in files(_directory(service))}


def _applied(deployment: Deployment, service: Service) -> set[str]:
    """What the database says was applied; nothing when the service could not log in."""
    try:
        with psycopg.connect(deployment.role_dsn(service), connect_timeout=_CONNECT_S) as connection:
            rows = connection.execute(
                "select name from schema_migration where component = 'service'"
            ).fetchall()
    except psycopg.Error:
        return set()
    return {str(row[0]) for row in rows}


def files(package: Path) -> list[Path]:
    """Every migration of the service in ``package``: of its store, or of the adapter that keeps its records."""
    return sorted(package.rglob("migrations/*.sql"))


def _directory(service: Service) -> Path:
    spec = importlib.util.find_spec(service.package)
    places = spec.submodule_search_locations if spec is not None else None
    return Path(next(iter(places or []), service.package))


def _read(file: Path) -> dict[str, str]:
    try:
        document = cast("object", json.loads(file.read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return {}
    return cast("dict[str, str]", document) if isinstance(document, dict) else {}
