"""Which memory systems are connected, by provider id."""

from collections.abc import Iterable
from typing import Final

from provider_workers.domain import errors
from provider_workers.domain.model import Capabilities
from provider_workers.domain.ports import ProviderAdapter

DEFAULT_PROVIDER: Final = "native"
"""The provider a root memory gets when none is named."""


class Registry:
    """The verbs of :class:`~provider_workers.domain.ports.Adapters`."""

    def __init__(self, adapters: Iterable[ProviderAdapter]) -> None:
        self._adapters: dict[str, ProviderAdapter] = {one.capabilities.id: one for one in adapters}

    def adapter(self, provider: str) -> ProviderAdapter:
        try:
            return self._adapters[provider]
        except KeyError:
            raise errors.not_connected(provider) from None

    def documents(self) -> tuple[Capabilities, ...]:
        return tuple(one.capabilities for one in self._adapters.values())
