from collections.abc import AsyncGenerator, Callable
from pathlib import Path

import pytest

from service_kit.identity import generate_keys
from tests.api.authz_service.service import Authz, Bearer, bootstrap, serving


@pytest.fixture(scope="session")
def keys(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """(private key, public keys)."""
    directory = tmp_path_factory.mktemp("passport-keys")
    for name, text in zip(("private.json", "public.json"), generate_keys(), strict=True):
        (directory / name).write_text(text)
    return directory / "private.json", directory / "public.json"


@pytest.fixture
async def authz(
    service_database: Callable[[str], str], keys: tuple[Path, Path], tmp_path: Path
) -> AsyncGenerator[Authz]:
    async with serving(service_database("authz"), keys, bootstrap(tmp_path)) as running:
        yield running


@pytest.fixture
async def alice(authz: Authz) -> Bearer:
    return await authz.person("alice")


@pytest.fixture
async def bob(authz: Authz) -> Bearer:
    return await authz.person("bob", "sales")
