"""The part of the composition root that is there only when an OIDC issuer is configured."""

from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta

from opentelemetry.metrics import CallbackOptions, Observation

from authz_service.clients.issuer import is_safe, issuer
from authz_service.domain.oidc.claims import Trust
from authz_service.domain.oidc.jwts import Jwts
from authz_service.domain.oidc.keys import Keys, Patience
from authz_service.domain.oidc.signature import ALGORITHMS
from authz_service.domain.ports import Tokens
from authz_service.settings import Settings
from service_kit import semconv, telemetry
from service_kit.clock import Clock
from service_kit.settings import SettingsError


@dataclass(frozen=True, slots=True)
class Oidc:
    """Its JWTs, and its keys, whose ``run`` is for the background."""

    jwts: Jwts
    keys: Keys


@asynccontextmanager
async def connected(settings: Settings, tokens: Tokens, clock: Clock) -> AsyncGenerator[Oidc | None]:
    """The configured issuer, None where there is none. Raises ``SettingsError`` for one that makes no sense."""
    trust = trusted(settings)
    if trust is None:
        yield None
        return
    patience = Patience(
        fresh=timedelta(seconds=settings.oidc_jwks_ttl_s),
        unknown=timedelta(seconds=settings.oidc_unknown_key_s),
        oldest=timedelta(seconds=max(settings.oidc_jwks_max_age_s, settings.oidc_jwks_ttl_s)),
    )
    async with issuer(trust.issuer, settings.oidc_jwks_url, settings.oidc_timeout_s) as away:
        keys = Keys(away, patience, clock)
        _observe(keys)
        yield Oidc(Jwts(trust, keys, tokens, clock), keys)


def trusted(settings: Settings) -> Trust | None:
    """Whose JWTs are believed, by the settings. Raises ``SettingsError``."""
    if settings.oidc_issuer is None:
        return None
    if settings.oidc_audience is None:
        raise SettingsError(
            f"{settings.variable('oidc_audience')} is not set: JWTs for others would be taken"
        )
    for field, url in (("oidc_issuer", settings.oidc_issuer), ("oidc_jwks_url", settings.oidc_jwks_url)):
        if url is not None and not is_safe(url):
            raise SettingsError(f"{settings.variable(field)} is no https address")
    algorithms = frozenset(one.strip() for one in settings.oidc_algorithms.split(",") if one.strip())
    if not algorithms or not algorithms <= ALGORITHMS.keys():
        known = ", ".join(ALGORITHMS)
        raise SettingsError(f"{settings.variable('oidc_algorithms')} lists some of {known} and nothing else")
    return Trust(
        issuer=settings.oidc_issuer,
        audience=settings.oidc_audience,
        algorithms=algorithms,
        person_claim=settings.oidc_person_claim,
        groups_claim=settings.oidc_groups_claim,
        admin_group=settings.oidc_admin_group or "",
        leeway=timedelta(seconds=settings.oidc_leeway_s),
    )


def _observe(keys: Keys) -> None:
    """A gauge that rises while the issuer cannot be reached."""

    def read(_: CallbackOptions) -> Iterable[Observation]:
        age = keys.age()
        return [] if age is None else [Observation(age.total_seconds())]

    telemetry.meter(__name__).create_observable_gauge(semconv.GROVE_OIDC_KEYS_AGE, [read], unit="s")
