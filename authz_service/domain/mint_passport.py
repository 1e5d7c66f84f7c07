"""The passport an agent's tools work on (Memories, sections 9 and 13)."""

from collections.abc import Sequence
from typing import Final, Literal

from authz_service.domain import attach_harness, errors
from authz_service.domain.model import Entry
from service_kit.identity import Narrowing, Passport, PassportSigner
from service_kit.ids import is_id

MOST: Final = attach_harness.MOST + 1
"""What a harness is attached to, and the one more a task may name."""


class MintPassport:
    """The use case."""

    def __init__(self, signer: PassportSigner) -> None:
        self._signer: PassportSigner = signer

    def __call__(self, harness: str, session: str, narrowing: Sequence[Entry]) -> Passport:
        """A passport for ``harness:<id>`` in one session, narrowed to ``narrowing`` (none: not narrowed).

        It carries no group and no scope but ``user``. What it can reach is decided call by call; of two
        entries for one memory the weaker counts.
        """
        if not is_id("chrn", harness):
            raise errors.invalid_input("A harness id is chrn_ and 32 hexadecimal digits.", "harness_id")
        if not session or len(session) > 100:
            raise errors.invalid_input("A harness's passport is for one session.", "session_id")
        attach_harness.check_entries(narrowing, MOST, once=False)
        if not all(is_id("hmem", one.memory_id) for one in narrowing):
            raise errors.invalid_input("A passport is narrowed to memories, by their ids.", "narrowing")
        return self._signer.sign(
            f"harness:{harness}",
            session=session,
            narrowing=[Narrowing(one.memory_id, _access(one)) for one in narrowing],
        )


def _access(entry: Entry) -> Literal["read", "write"]:
    return "write" if entry.access == "write" else "read"
