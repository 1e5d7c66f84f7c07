from pathlib import Path

import pytest

from provider_workers.adapters.native.embedding.build_model import build_model
from provider_workers.adapters.native.embedding.encoder import Encoder
from provider_workers.adapters.native.embedding.files import default_model_dir


@pytest.fixture(scope="session")
def model_dir() -> Path:
    """The encoder as set-up builds it; built here when set-up did not."""
    built = default_model_dir()
    build_model(built, Path.home() / ".cache" / "grovekeeper", lambda _line: None)
    return built


@pytest.fixture(scope="session")
def encoder(model_dir: Path) -> Encoder:
    return Encoder(model_dir)
