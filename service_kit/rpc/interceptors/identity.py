"""Who is calling: the passport in the call's metadata, verified here, current in the handler."""

from collections.abc import Mapping

from service_kit.errors import GroveError
from service_kit.identity import PassportVerifier, set_passport
from service_kit.rpc.status import PASSPORT_KEY

__all__ = ["admit"]


def admit(metadata: Mapping[str, str], verifier: PassportVerifier | None, *, public: bool) -> None:
    """Make the caller's passport current for the rest of this call's context.

    ``missing_credential`` without one (unless the method is ``public``), ``invalid_credential`` for a
    bad one. A public method runs without an identity, whatever the caller sent.
    """
    set_passport(None)
    if public:
        return
    token = metadata.get(PASSPORT_KEY)
    if token is None or verifier is None:
        raise GroveError("missing_credential", "The call carries no passport.")
    set_passport(verifier.verify(token))
