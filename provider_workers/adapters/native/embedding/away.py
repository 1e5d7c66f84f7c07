"""The failure of an embedder that says nothing about the text it was given."""

from service_kit.errors import GroveError

__all__ = ["AwayError"]


class AwayError(GroveError):
    """The service that embeds does not answer; any other text would fare no better now."""
