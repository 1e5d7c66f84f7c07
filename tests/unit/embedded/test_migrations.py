"""What `grove up` believes to be migrated."""

from pathlib import Path

import pytest

import authz_service.main
import memory_service.main
import provider_workers.main
import runner_service.main
from service_kit.db.migrate import Schema
from service_kit.embedded import migrations


@pytest.mark.parametrize(
    ("main", "schema"),
    [
        (authz_service.main.__file__, authz_service.main.SCHEMA),
        (memory_service.main.__file__, memory_service.main.SCHEMA),
        (provider_workers.main.__file__, provider_workers.main.SCHEMA),
        (runner_service.main.__file__, runner_service.main.SCHEMA),
    ],
    ids=["authz", "memory", "provider", "runner"],
)
def test_no_migration_of_a_service_is_overlooked(main: str, schema: Schema):
    found = migrations.files(Path(main).parent)
    assert found
    assert found == sorted(schema.migrations.glob("*.sql"))
