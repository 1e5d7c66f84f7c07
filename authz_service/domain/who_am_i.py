"""Who a passport speaks for."""

from dataclasses import dataclass

from authz_service.domain.ports import Groups
from service_kit.identity import Passport


@dataclass(frozen=True, slots=True)
class Known:
    """The groups that count for a principal now, sorted, and those of them an administrator put it in."""

    groups: tuple[str, ...]
    managed: tuple[str, ...]


async def who_am_i(groups: Groups, passport: Passport) -> Known:
    """The groups the passport names and those its principal was put in, each once."""
    managed = await groups.groups_of(passport.principal)
    return Known(tuple(sorted({*passport.groups, *managed})), tuple(managed))
