import pytest
from pydantic import ValidationError

from provider_workers.settings import Settings, named


def test_signals_to_leave_out_are_named_with_commas():
    assert named(Settings(native_without_signals="keys, time").native_without_signals) == {"keys", "time"}
    assert named(Settings().native_without_signals) == frozenset()


@pytest.mark.parametrize("listed", ["tone", "words,meaning", "keys;time"])
def test_what_is_no_signal_is_refused(listed: str):
    with pytest.raises(ValidationError, match="name some of words, meaning, neighbours"):
        Settings(native_without_signals=listed)
