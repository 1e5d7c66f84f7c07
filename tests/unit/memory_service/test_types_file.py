"""The types of the configuration: read at start, or refused in words that say where the fault is."""

from pathlib import Path

import pytest

from memory_service.store.types_file import read_types
from service_kit.settings import SettingsError

GOOD = b"""{"types": [{"type": "x.deal", "description": "A deal.", "schema": {"type":"object",  "maxProperties": 9},
  "text": "the title", "projection": ["attributes.title"],
  "operations": [{"name": "win", "definition": {"set": {"attributes.stage": {"const": "won"}}}}]}]}"""


def read(folder: Path, text: bytes) -> object:
    file = folder / "types.json"
    file.write_bytes(text)
    return read_types(file)


def test_types_of_a_file_are_as_they_were_written(tmp_path: Path):
    (tmp_path / "types.json").write_bytes(GOOD)
    (one,) = read_types(tmp_path / "types.json")
    assert (one.type, one.source, one.projection) == ("x.deal", "configuration", ("attributes.title",))
    assert one.schema == b'{"type":"object",  "maxProperties": 9}'
    assert [operation.name for operation in one.operations] == ["win"]


def test_no_file_is_no_types():
    assert read_types(None) == ()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"{", "is no list of types"),
        (b"[]", "is no list of types"),
        (b'{"types": [{"type": "deal"}]}', "types.0.type"),
        (b'{"types": [{"type": "x.a", "shema": {}}]}', "shema"),
        (b'{"types": [{"type": "x.a"}, {"type": "x.b", "schema": {"type": "odd"}}]}', "types.1.schema"),
        (b'{"types": [{"type": "x.a"}, {"type": "x.a"}]}', "x.a twice"),
        (b'{"types": [{"type": "x.a", "projection": ["title"]}]}', "types.0.projection.0"),
    ],
)
def test_a_fault_says_where_it_is(tmp_path: Path, text: bytes, said: str):
    with pytest.raises(SettingsError, match=said) as refused:
        read(tmp_path, text)
    assert "GROVE_TYPES_FILE" in str(refused.value)


def test_a_file_that_is_not_there_is_a_fault(tmp_path: Path):
    with pytest.raises(SettingsError, match="GROVE_TYPES_FILE cannot be read"):
        read_types(tmp_path / "nothing.json")
