"""Taking a bearer token back."""

from authz_service.domain import errors
from authz_service.domain.ports import Tokens
from authz_service.domain.secrets import digest
from service_kit.clock import Clock


class RevokeToken:
    """The use case."""

    def __init__(self, tokens: Tokens, clock: Clock) -> None:
        self._tokens: Tokens = tokens
        self._clock: Clock = clock

    async def __call__(self, *, token_id: str = "", secret: str = "") -> str:
        """The id of the token revoked, which opens nothing from the answer on. Again is as good as once.

        Named by id or by the token itself; ``grovekeeper_not_found`` when there is none such.
        """
        if not token_id and not secret:
            raise errors.invalid_input("Name the token by its id or by the token itself.", "id")
        sha256 = digest(secret) if secret else b""
        revoked = await self._tokens.revoke(token_id=token_id, sha256=sha256, now=self._clock.now())
        if revoked is None:
            raise errors.token_not_found()
        return revoked
