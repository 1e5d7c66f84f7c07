"""Which APIs agents are offered is what the operator set, and nothing else."""

from typing import Any

import pytest
from pydantic import ValidationError

from runner_service.main import _upstreams
from runner_service.settings import Settings


def settings(**more: Any) -> Settings:
    return Settings.model_validate(more)


def test_without_an_endpoint_nothing_is_offered() -> None:
    only_a_key = settings(relay_chat_api_key="sk-1", relay_chat_models="m", model_base_url="http://model/v1")
    assert _upstreams(only_a_key) == []


def test_an_endpoint_is_offered_with_its_key_and_its_models() -> None:
    made = _upstreams(
        settings(
            relay_anthropic_base_url="https://api.anthropic.com",
            relay_anthropic_api_key="sk-1",
            relay_anthropic_models="large-1, small-1,large-1",
            relay_chat_base_url="http://[::1]:8000/v1/",
        )
    )
    assert [(one.api.kind, one.key, one.models) for one in made] == [
        ("anthropic", "sk-1", ("large-1", "small-1")),
        ("chat", "", ()),
    ]
    assert [str(one.at(one.api.generate, b"beta=true")) for one in made] == [
        "https://api.anthropic.com/v1/messages?beta=true",
        "http://[::1]:8000/v1/chat/completions?beta=true",
    ]


@pytest.mark.parametrize(
    "url",
    [
        "api.anthropic.com",
        "ftp://host",
        "https://me:secret@host",
        "https://host/?a=b",
        "https://",
        "https://a b",
    ],
)
def test_what_is_no_endpoint_is_refused_at_the_start(url: str) -> None:
    with pytest.raises(ValidationError) as refused:
        settings(relay_anthropic_base_url=url)
    assert "secret" not in str(refused.value)
