"""Which of very many versions have a question's words, and how rare those are.

Of several memories all are read while they are not very many. Else rare words are looked for by the index of words,
how common a common one is, is estimated from a sample, and it is looked for only when rarer ones find too little.
"""

from collections.abc import Sequence
from typing import Final

from psycopg import sql

from provider_workers.adapters.native.lexemes import Lexemes, bit, masks
from provider_workers.adapters.native.scope import Arguments
from provider_workers.adapters.native.seen import BEST, Keys, Seen, Spread, keys_of
from provider_workers.adapters.native.signals import bits
from service_kit.db.tx import Row

__all__ = ["PLACES", "Wording"]

PLACES: Final = 256
"""At so many places, spread over all versions, the sample is taken."""

_RARE: Final = 5_000
_LOOKED_FOR: Final = 20_000
_SEEN: Final = 10
_SAMPLED: Final = 1_024
_LOOKED_THROUGH: Final = 100_000
_NEWEST: Final = 20_000

_BY_WORDS: Final = sql.SQL("select * from version v where {}")
# Read by memory alone, they cost the same whatever words the memories of others hold.
_BY_MEMORY: Final = sql.SQL("select * from version v where {} offset 0")


class Wording:
    """``total`` versions and their words, and places ``spread`` over them."""

    def __init__(self, seen: Seen, total: int, spread: Spread) -> None:
        self._seen = seen
        self._total = total
        self._spread = spread
        self._memory_ids = seen.search.memory_ids
        self._all_are_read = len(self._memory_ids) > 1 and total <= _LOOKED_THROUGH

    async def best(self, asked: Lexemes) -> tuple[Keys, list[float]]:
        """The best by the sum of their words' rarities, and how many versions have each word. Common words are looked
        for when the rare ones find too little: the rarest of them, or else the newest with all of them.
        """
        if not asked.words:
            return [], []
        if self._all_are_read:
            holding, rare = [0.0] * len(asked.each), list(range(len(asked.each)))
        else:
            holding, rare = await self._estimated(asked.each)
        rows = await self._with_rare(asked.each, rare, holding) if rare else []
        for place, at in enumerate(rare):
            holding[at] = float(rows[0]["holding"][place]) if rows else 0.0
        keys, common = keys_of(rows), [at for at in range(len(holding)) if at not in rare]
        if common and len(keys) < BEST:
            look = self._newest_with if len(self._memory_ids) == 1 else self._among_newest
            keys += await look([asked.each[at] for at in common], [holding[at] for at in common])
        return keys, holding

    async def _estimated(self, each: Sequence[str]) -> tuple[list[float], list[int]]:
        """How many have each word, by a sample, and which are to be looked for wherever they are."""
        shares = await self._shares(each)
        holding = [share * self._total for share in shares]
        rare = [at for at, held in enumerate(holding) if held <= _RARE or shares[at] * _SAMPLED < _SEEN]
        rarest = min(range(len(holding)), key=holding.__getitem__)
        if not rare and holding[rarest] <= _LOOKED_FOR:
            rare = [rarest]
        return holding, rare

    async def _with_rare(
        self, each: Sequence[str], rare: Sequence[int], holding: Sequence[float]
    ) -> list[Row]:
        """Those with any of the rare words, the best by all of them, and how many have each of the rare."""
        bind = Arguments()
        counts = sql.SQL(", ").join(sql.SQL("count(*) filter (where {})").format(bit(at)) for at in rare)
        held = [
            sql.SQL("holding[{}]").format(sql.Literal(rare.index(at) + 1))
            if at in rare
            else sql.Literal(holding[at])
            for at in range(len(each))
        ]
        statement = sql.SQL(
            "with hit as materialized (select v.memory_id, v.record_id, v.version, v.created_at, {masks} as words"
            " from ({versions}) v where v.words @@ {any}::tsquery),"
            " counted as materialized (select array[{counts}]::float8[] as holding from hit)"
            " select memory_id, record_id, version, holding from hit cross join counted"
            " order by {score} desc, created_at desc, record_id limit {most}"
        ).format(
            masks=masks(each, bind),
            versions=(_BY_MEMORY if self._all_are_read else _BY_WORDS).format(
                self._seen.scope(bind).condition
            ),
            any=bind(" | ".join(each[at] for at in rare)),
            counts=counts,
            score=self._score(held),
            most=sql.Literal(BEST),
        )
        return await self._seen.fetch(statement, bind)

    async def _newest_with(self, each: Sequence[str], holding: Sequence[float]) -> Keys:
        """The newest of one memory that have all of the words, then those that have any."""
        del holding
        found = Keys()
        for joined in (" & ", " | "):
            bind = Arguments()
            holds = sql.SQL("v.words @@ {}::tsquery").format(bind(joined.join(each)))
            found += await self._seen.newest(holds, bind)
            if len(found) >= BEST:
                break
        return found

    async def _among_newest(self, each: Sequence[str], holding: Sequence[float]) -> Keys:
        """The best by the words' rarities among the newest of several memories, which stand in no order that could be
        followed until enough have the words. Narrowed down, all are looked through.
        """
        bind = Arguments()
        seen = self._seen.scope(bind)
        versions = _BY_MEMORY.format(seen.condition)
        if seen.present:
            versions = sql.SQL(
                "select v.* from (select v.memory_id, v.record_id from version v where {}"
                " order by v.created_at desc, v.record_id desc limit {}) newest"
                " join version v using (memory_id, record_id) where v.invalidated_at is null offset 0"
            ).format(seen.condition, sql.Literal(_NEWEST))
        statement = sql.SQL(
            "select memory_id, record_id, version from (select v.memory_id, v.record_id, v.version, v.created_at,"
            " {masks} as words from ({versions}) v where v.words @@ {any}::tsquery) hit"
            " order by {score} desc, created_at desc, record_id limit {most}"
        ).format(
            masks=masks(each, bind),
            versions=versions,
            any=bind(" | ".join(each)),
            score=self._score([sql.Literal(held) for held in holding]),
            most=sql.Literal(BEST),
        )
        return keys_of(await self._seen.fetch(statement, bind))

    def _score(self, holding: Sequence[sql.Composable]) -> sql.Composed:
        """The sum of the rarities of a hit's words, so many versions having each."""
        return sql.SQL(" + ").join(
            sql.SQL("({has})::int * ln(1 + (greatest({total} - {held}, 0) + 0.5) / ({held} + 0.5))").format(
                has=bit(at), total=sql.Literal(float(self._total)), held=held
            )
            for at, held in enumerate(holding)
        )

    async def _shares(self, each: Sequence[str]) -> list[float]:
        """In what share of the versions each word is, by some at each of the places."""
        bind = Arguments()
        statement = sql.SQL(
            "select distinct on (v.record_id, v.version) {masks} as words"
            " from unnest({memories}::text[], {parts}::float8[]) p(memory_id, part)"
            " cross join lateral (select min(created_at) as low, max(created_at) as high from version v"
            " where v.memory_id = p.memory_id and v.invalidated_at is null) span"
            " cross join lateral (select * from version v where v.memory_id = p.memory_id"
            " and v.invalidated_at is null and v.created_at >= low + (high - low) * part"
            " order by v.created_at limit {each}) v"
        ).format(
            masks=masks(each, bind),
            memories=bind([memory_id for memory_id, _ in self._spread]),
            parts=bind([part for _, part in self._spread]),
            each=sql.Literal(_SAMPLED // len(self._spread)),
        )
        rows = await self._seen.fetch(statement, bind)
        held = bits([row["words"] for row in rows], len(each))
        return [float(share) for share in held.mean(0)] if rows else [0.0] * len(each)
