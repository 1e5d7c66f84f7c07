"""``/v1/grovekeeper/…``: who a token speaks for."""

from fastapi import FastAPI
from starlette.responses import Response

from gateway.http import answer
from gateway.openapi import describe
from gateway.schemas import access as schema
from service_kit.identity import current_passport

__all__ = ["routes"]


def routes(on: FastAPI) -> None:
    """Everybody may ask who they are."""

    @on.get("/v1/grovekeeper/whoami", openapi_extra=describe(schema.WhoAmI))
    async def whoami() -> Response:
        """Who this token speaks for."""
        passport = current_passport()
        return answer(
            schema.WhoAmI(
                principal=passport.principal,
                groups=list(passport.groups),
                scopes=sorted(passport.scopes),
            )
        )
