import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from provider_workers.adapters.native.embedding.encoder import Encoder, Vector, pool
from provider_workers.adapters.native.embedding.files import (
    MANIFEST_FILE,
    MODEL_FILE,
    TOKENIZER_FILE,
    ModelFilesError,
)

_WORD = "meeting "


def _norm(vector: Vector) -> float:
    return float(np.linalg.norm(vector))


def test_a_text_always_has_the_same_vector(encoder: Encoder, model_dir: Path) -> None:
    text = "Alice prefers the train to Oslo."
    first = encoder.encode(text)
    assert np.array_equal(first, encoder.encode(text))
    assert np.array_equal(first, Encoder(model_dir).encode(text))


def test_a_vector_has_the_declared_length_and_norm_one(encoder: Encoder) -> None:
    vector = encoder.encode("The invoice is due on Friday.")
    assert vector.shape == (encoder.manifest.dimension,)
    assert vector.dtype == np.float32
    assert _norm(vector) == pytest.approx(1.0, abs=1e-5)


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "\n\t",
        "\x00",
        "你好, 世界",
        "🦊🌲",
        "é" * 500,
        "\ud800 alone",
        "a" * 5000,
        "مرحبا بالعالم",
        "{}[]",
    ],
)
def test_any_text_has_a_unit_vector(encoder: Encoder, text: str) -> None:
    vector = encoder.encode(text)
    assert np.isfinite(vector).all()
    assert _norm(vector) == pytest.approx(1.0, abs=1e-5)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(max_size=200))
def test_no_text_breaks_the_encoder(encoder: Encoder, text: str) -> None:
    assert _norm(encoder.encode(text)) == pytest.approx(1.0, abs=1e-5)


def test_case_and_outer_space_make_no_difference(encoder: Encoder) -> None:
    assert np.array_equal(encoder.encode("  Bob Likes TEA "), encoder.encode("bob likes tea"))


def test_meaning_is_nearer_than_words(encoder: Encoder) -> None:
    question = encoder.encode("What does she do for a living?")
    near = encoder.encode("Alice works as a nurse in a hospital.")
    far = encoder.encode("The living room needs new paint.")
    assert float(question @ near) > float(question @ far)


def test_text_over_the_window_counts_to_its_end(encoder: Encoder) -> None:
    filler = _WORD * 400
    tail = "The password of the archive is swordfish."
    question = encoder.encode("password of the archive")
    assert len(encoder.windows(filler + tail)) > 1
    assert float(question @ encoder.encode(filler + tail)) > float(question @ encoder.encode(filler)) + 0.02


def test_windows_are_even_and_within_the_model(encoder: Encoder) -> None:
    room = encoder.manifest.max_tokens - 2
    assert len(encoder.windows(_WORD * room)) == 1
    assert len(encoder.windows(_WORD * (room + 1))) == 2
    sizes = [len(window) for window in encoder.windows(_WORD * (room + 1))]
    assert max(sizes) - min(sizes) <= 1


def test_work_on_one_text_is_bounded(encoder: Encoder) -> None:
    assert len(encoder.windows(_WORD * 100_000)) == 16


def test_pooling_weighs_by_length() -> None:
    east, north = np.array([1, 0], np.float32), np.array([0, 1], np.float32)
    pooled = pool([east, north], [3, 1])
    assert pooled == pytest.approx(np.array([3, 1]) / np.sqrt(10), abs=1e-6)


def test_opposite_vectors_pool_without_dividing_by_zero() -> None:
    east = np.array([1, 0], np.float32)
    assert np.isfinite(pool([east, -east], [1, 1])).all()


@pytest.mark.parametrize("name", [MANIFEST_FILE, MODEL_FILE, TOKENIZER_FILE])
def test_a_missing_or_damaged_file_is_named_with_advice(model_dir: Path, tmp_path: Path, name: str) -> None:
    copy = tmp_path / "model"
    shutil.copytree(model_dir, copy)
    with (copy / name).open("r+b") as file:
        file.write(b"\0damaged")
    with pytest.raises(ModelFilesError, match="build_model"):
        Encoder(copy)
    (copy / name).unlink()
    with pytest.raises(ModelFilesError, match="build_model"):
        Encoder(copy)


def test_a_model_of_another_generation_is_refused(model_dir: Path, tmp_path: Path) -> None:
    copy = tmp_path / "model"
    shutil.copytree(model_dir, copy)
    manifest = copy / MANIFEST_FILE
    manifest.write_text(manifest.read_text().replace("-int8-v1", "-int8-v0"))
    with pytest.raises(ModelFilesError, match="v0"):
        Encoder(copy)
