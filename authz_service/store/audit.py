"""The audit in Postgres: rows are only ever added."""

import json
from typing import Final

from authz_service.domain.audit import Act
from service_kit import telemetry
from service_kit.db.pool import Tx
from service_kit.identity import passport_or_none
from service_kit.ids import is_id, new_id

NOT_AN_ID: Final = "(no id)"
"""Written where a memory was named by something else: it may be anything, a secret too."""


async def append(tx: Tx, act: Act, *, refused: str = "") -> None:
    """Add what the bearer of the current passport did, or tried: ``refused`` is the code it was refused with."""
    passport = passport_or_none()
    await tx.execute(
        "insert into audit (id, at, actor, token_id, action, outcome, code, node, principal, source,"
        " trace_id, detail) values (%s, clock_timestamp(), %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)",
        (
            new_id("haud"),
            "" if passport is None else passport.principal,
            "" if passport is None else passport.token_id or "",
            act.action,
            "refused" if refused else "allowed",
            refused,
            act.node if not act.node or is_id("hmem", act.node) else NOT_AN_ID,
            act.principal,
            "" if passport is None else passport.source or passport.session or "",
            telemetry.trace_id() or "",
            json.dumps(act.detail, ensure_ascii=False),
        ),
    )
