"""Who knows one service finds the way in the others."""

import pytest

from tests.architecture.source import ROOT

SERVICES = ("authz_service", "memory_service", "runner_service", "provider_workers")
FILES = (
    "__main__.py",
    "main.py",
    "settings.py",
    "api/servicer.py",
    "api/convert.py",
    "domain/model.py",
    "domain/ports.py",
    "domain/errors.py",
)
KEPT = {
    "authz_service": "store",
    "memory_service": "store",
    "runner_service": "store",
    "provider_workers": "adapters/native",
}
"""Where a service's migrations lie; the provider's rows are its native adapter's."""


@pytest.mark.parametrize("service", SERVICES)
def test_every_service_has_the_same_files_in_the_same_rooms(service: str):
    assert not [file for file in FILES if not (ROOT / service / file).exists()]


@pytest.mark.parametrize("service", SERVICES)
def test_the_migrations_of_a_service_are_numbered_without_a_gap_or_a_double(service: str):
    files = sorted(file.name for file in (ROOT / service / KEPT[service] / "migrations").glob("*.sql"))
    assert files
    assert [int(name[:4]) for name in files] == list(range(1, len(files) + 1))
