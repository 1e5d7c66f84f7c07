"""The models that ``grove doctor`` looks at: that their endpoints answer, and how far vectors are made with the newest."""

import json
from pathlib import Path
from typing import Final

import httpx
from prometheus_client.parser import text_string_to_metric_families
from pydantic import SecretStr

from service_kit import semconv
from service_kit.cli.finding import Finding
from service_kit.embedded import state
from service_kit.embedded.settings import UpSettings, embedded_model

__all__ = ["deriving", "embedding", "vectors"]

_ASK_S: Final = 5.0
_REFUSED: Final = frozenset({401, 403})
_PENDING: Final = semconv.GROVE_EMBEDDINGS_PENDING.replace(".", "_")
_GENERATION: Final = semconv.GROVE_EMBEDDING_GENERATION.replace(".", "_")


def embedding(settings: UpSettings) -> Finding:
    """What turns text into vectors."""
    if settings.embedding_base_url is not None:
        return _asked(
            ("embedding", "GROVE_EMBEDDING"),
            settings.embedding_base_url,
            settings.embedding_api_key,
            settings.embedding_model,
        )
    directory = settings.embedding_model_dir or embedded_model()
    if not _has_files(directory):
        return Finding("FAIL", "embedding", f"no sentence encoder in {directory}", "run `make setup`")
    return Finding("ok", "embedding", f"embedded, {directory}")


def deriving(settings: UpSettings) -> Finding:
    """The model that derives facts, where one is set."""
    if settings.derivation_base_url is None:
        return Finding("note", "derivation", "no model is set")
    return _asked(
        ("derivation", "GROVE_DERIVATION"),
        settings.derivation_base_url,
        settings.derivation_api_key,
        settings.derivation_model,
    )


def vectors(running: state.State | None) -> list[Finding]:
    """How many versions wait for a vector, and of which model; nothing where no provider says it."""
    member = None if running is None else running.members.get("provider")
    if member is None or member.ops is None:
        return []
    try:
        told = httpx.get(f"http://{member.ops}/metrics", timeout=_ASK_S).raise_for_status().text
        shown = [one for family in text_string_to_metric_families(told) for one in family.samples]
        return [
            _waiting(int(one.value), one.labels[_GENERATION])
            for one in shown
            if one.name == _PENDING and _GENERATION in one.labels
        ]
    except (httpx.HTTPError, ValueError, OverflowError):
        # It may be gone, and something else be where it was.
        return []


def _waiting(count: int, model: str) -> Finding:
    if not count:
        return Finding("ok", "vectors", f"none is waited for; they are made with {model}")
    return Finding("note", "vectors", f"{count} versions wait for a vector of {model}; words find them")


def _asked(of: tuple[str, str], base_url: str, key: SecretStr | None, model: str | None) -> Finding:
    """Ask an OpenAI-compatible endpoint which models it has: that costs nothing. Few but not all can say."""
    subject, setting = of
    headers = {} if key is None else {"Authorization": f"Bearer {key.get_secret_value()}"}
    try:
        answer = httpx.get(f"{base_url.rstrip('/')}/models", headers=headers, timeout=_ASK_S)
    except (UnicodeEncodeError, httpx.LocalProtocolError):
        return Finding("FAIL", subject, "the key cannot be sent as it is", f"check {setting}_API_KEY")
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        told = f"{base_url} does not answer: {type(error).__name__}"
        return Finding("FAIL", subject, told, f"check {setting}_BASE_URL, and that the service runs")
    if answer.status_code in _REFUSED:
        told = f"{base_url} refuses the key ({answer.status_code})"
        return Finding("FAIL", subject, told, f"check {setting}_API_KEY")
    if answer.status_code >= 500:
        told = f"{base_url} is out of order ({answer.status_code})"
        return Finding("FAIL", subject, told, "ask whoever runs the service")
    listed = _listed(answer)
    if listed is None:
        return Finding("ok", subject, f"{model} at {base_url}, which answers and lists no models")
    if model not in listed:
        told = f"{base_url} does not list {model}"
        return Finding("note", subject, told, f"check {setting}_MODEL if calls are refused")
    return Finding("ok", subject, f"{model} at {base_url}, which answers and has it")


def _listed(answer: httpx.Response) -> frozenset[str] | None:
    """The ids of an answer as OpenAI gives it; None where it is another."""
    try:
        return frozenset(str(one["id"]) for one in answer.raise_for_status().json()["data"])
    except (
        httpx.HTTPError,
        json.JSONDecodeError,
        UnicodeDecodeError,
        RecursionError,
        LookupError,
        TypeError,
    ):
        return None


def _has_files(directory: Path) -> bool:
    return directory.is_dir() and any(directory.iterdir())
