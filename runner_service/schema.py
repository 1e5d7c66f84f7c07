"""What the service needs of its database. Apart from what serves, so that to migrate does not load all of it."""

from pathlib import Path
from typing import Final

from service_kit.db import migrate

__all__ = ["SCHEMA"]

SCHEMA: Final = migrate.Schema("runner", Path(__file__).parent / "store" / "migrations", jobs=True)
