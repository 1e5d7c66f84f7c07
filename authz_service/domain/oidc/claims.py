"""What is read from the claims of a JWT that its issuer signed: for whom it is, who bears it, and when."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, cast

from authz_service.domain.oidc.signature import RefusedError
from authz_service.domain.principals import MOST_GROUP_CHARACTERS, MOST_GROUPS, fit, is_id

_LATEST: Final = 253_370_764_800  # the year 9999


@dataclass(frozen=True, slots=True)
class Trust:
    """Whose JWTs are believed, and how they are read.

    ``audience`` is this server's name at the issuer. ``person_claim`` and ``groups_claim`` say who bears it;
    members of ``admin_group`` (a name as the claim has it, "": nobody) get the scope ``admin``. ``leeway`` is
    how far apart the clocks may be.
    """

    issuer: str
    audience: str
    algorithms: frozenset[str]
    person_claim: str = "sub"
    groups_claim: str = "groups"
    admin_group: str = ""
    leeway: timedelta = timedelta(0)


@dataclass(frozen=True, slots=True)
class Person:
    """Who bears a JWT, and when it is good: from ``starts_at`` until before ``ends_at``, leeway included."""

    principal: str
    groups: tuple[str, ...]
    scopes: tuple[str, ...]
    starts_at: datetime
    ends_at: datetime


def read(claims: Mapping[str, object], trust: Trust) -> Person:
    """The bearer. Raises :class:`RefusedError`."""
    if claims.get("iss") != trust.issuer:
        raise RefusedError("another issuer issued it")
    if trust.audience not in _audience(claims.get("aud")):
        raise RefusedError("it is for another audience")
    if "events" in claims:
        raise RefusedError("it tells of an event and speaks for nobody")
    if "cnf" in claims:
        raise RefusedError("it is bound to a key that this server cannot ask for")
    starts_at, ends_at = _times(claims, trust.leeway)
    person, named = _person(claims, trust), _names(claims, trust.groups_claim)
    groups = tuple(dict.fromkeys(f"group:{one}" for one in named if is_id(one)))
    if not fit(groups):
        raise _too_many()
    scopes = ("user", "admin") if trust.admin_group and trust.admin_group in named else ("user",)
    return Person(f"person:{person}", groups, scopes, starts_at, ends_at)


def _audience(value: object) -> list[str]:
    if isinstance(value, str):
        return [value]
    return _strings(value, "its audience is no string and no list of strings")


def _times(claims: Mapping[str, object], leeway: timedelta) -> tuple[datetime, datetime]:
    if "exp" not in claims:
        raise RefusedError("it never expires")
    ends_at = _time(claims["exp"], "exp")
    begun = [_time(claims[name], name) for name in ("nbf", "iat") if name in claims]
    starts_at = max(begun, default=datetime.fromtimestamp(0, UTC) + leeway)
    return starts_at - leeway, ends_at + leeway


def _time(value: object, name: str) -> datetime:
    """A NumericDate (RFC 7519, section 2)."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= _LATEST:
        raise RefusedError(f"its {name} is no moment in time")
    return datetime.fromtimestamp(value, UTC)


def _person(claims: Mapping[str, object], trust: Trust) -> str:
    name = claims.get(trust.person_claim)
    if not isinstance(name, str) or not is_id(name):
        raise RefusedError("what should name a person names none that can be a principal")
    if trust.person_claim == "email" and claims.get("email_verified", True) is not True:
        raise RefusedError("its issuer did not verify the address of mail that names the person")
    return name


def _names(claims: Mapping[str, object], claim: str) -> list[str]:
    """The groups as the issuer calls them."""
    elsewhere = claims.get("_claim_names")
    if isinstance(elsewhere, dict) and claim in elsewhere:
        # OpenID Connect Core, section 5.6.2: they are too many to be told here.
        raise _too_many()
    value = claims.get(claim, [])
    return [value] if isinstance(value, str) else _strings(value, "its groups are no list of strings")


def _strings(value: object, reason: str) -> list[str]:
    if not isinstance(value, list):
        raise RefusedError(reason)
    values = cast("list[object]", value)
    if not all(isinstance(one, str) for one in values):
        raise RefusedError(reason)
    return cast("list[str]", values)


def _too_many() -> RefusedError:
    return RefusedError(
        "its bearer is in too many groups",
        f"The credential names more than {MOST_GROUPS} groups, or more than {MOST_GROUP_CHARACTERS:,} characters"
        " of them; have its issuer name fewer.",
    )
