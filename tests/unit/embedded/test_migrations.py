"""What `grove up` believes to be migrated."""

from pathlib import Path

import pytest

import authz_service.schema
import memory_service.schema
import provider_workers.schema
import runner_service.schema
from service_kit.db.migrate import Schema
from service_kit.embedded import migrations


@pytest.mark.parametrize(
    ("main", "schema"),
    [
        (authz_service.schema.__file__, authz_service.schema.SCHEMA),
        (memory_service.schema.__file__, memory_service.schema.SCHEMA),
        (provider_workers.schema.__file__, provider_workers.schema.SCHEMA),
        (runner_service.schema.__file__, runner_service.schema.SCHEMA),
    ],
    ids=["authz", "memory", "provider", "runner"],
)
def test_no_migration_of_a_service_is_overlooked(main: str, schema: Schema):
    found = migrations.files(Path(main).parent)
    assert found
    assert found == sorted(schema.migrations.glob("*.sql"))
