"""Taking a bearer token back."""

from authz_service.domain import errors
from authz_service.domain.audit import Act
from authz_service.domain.model import Token
from authz_service.domain.oidc.jwts import Jwts
from authz_service.domain.ports import Tokens
from authz_service.domain.secrets import digest, is_jwt
from service_kit.clock import Clock


class RevokeToken:
    """The use case."""

    def __init__(self, tokens: Tokens, jwts: Jwts | None, clock: Clock) -> None:
        self._tokens: Tokens = tokens
        self._jwts: Jwts | None = jwts
        self._clock: Clock = clock

    async def __call__(self, *, token_id: str = "", secret: str = "") -> str:
        """The id of the token revoked, which opens nothing from the answer on. Again is as good as once.

        Named by id or by the token itself; ``grovekeeper_not_found`` when there is none such, which a JWT
        that its issuer did not sign, or that expired, is too.
        """
        if not token_id and not secret:
            raise errors.invalid_input("Name the token by its id or by the token itself.", "id")
        if secret and self._jwts is not None and is_jwt(secret):
            return await self._revoke_jwt(self._jwts, secret)
        async with self._tokens.change() as tx:
            found = await tx.revoke(
                token_id=token_id, sha256=digest(secret) if secret else b"", now=self._clock.now()
            )
            if found is None:
                raise errors.token_not_found()
            token, first = found
            if first:
                await tx.record(revoked(token))
        return token.id

    async def _revoke_jwt(self, jwts: Jwts, text: str) -> str:
        signed = await jwts.signed(text)
        if signed is None:
            raise errors.token_not_found()
        async with self._tokens.change() as tx:
            if await tx.revoke_jwt(signed.sha256, expires_at=signed.ends_at, now=self._clock.now()):
                detail = {"token": signed.id, "expires_at": signed.ends_at.isoformat()}
                await tx.record(Act("token.revoke", principal=signed.principal, detail=detail))
        return signed.id


def revoked(token: Token) -> Act:
    """What the audit keeps of it."""
    detail = {"token": token.id} | ({"bootstrap": token.bootstrap} if token.bootstrap else {})
    return Act("token.revoke", principal=token.principal, detail=detail)
