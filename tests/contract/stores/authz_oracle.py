"""A second, naive reading of Memories, sections 3 and 9, to hold authz_service against.

It shares nothing with the service: plain dictionaries, and every answer worked out from the definitions.
"""

from dataclasses import dataclass, field

READ, WRITE, CREATE, DELETE = 1, 2, 4, 8
ALL = 15
MAX_DEPTH = 64


@dataclass(frozen=True)
class Who:
    """A caller: itself first among its principals; what it is narrowed to as (memory id, access)."""

    principals: tuple[str, ...]
    narrow: tuple[tuple[str, str], ...] = ()


@dataclass
class Seen:
    """What a caller is shown of a node."""

    id: str
    parent_id: str
    ancestors: list[str]
    restricted: bool
    mask: int
    children: int


@dataclass
class Oracle:
    """The tree and its grants."""

    parent: dict[str, str | None] = field(default_factory=dict[str, str | None])
    restricted: dict[str, bool] = field(default_factory=dict[str, bool])
    creator: dict[str, str] = field(default_factory=dict[str, str])
    revoked: set[str] = field(default_factory=set[str])
    grants: dict[tuple[str, str], int] = field(default_factory=dict[tuple[str, str], int])

    def add(self, node: str, parent: str | None, creator: str, *, restricted: bool) -> None:
        self.parent[node] = parent
        self.restricted[node] = restricted
        self.creator[node] = creator

    def line(self, node: str) -> list[str]:
        """The node and its ancestors, upward."""
        above = self.parent[node]
        return [node] if above is None else [node, *self.line(above)]

    def sources(self, node: str) -> list[str]:
        """The nodes whose grants reach this one: up to and including the nearest restricted one."""
        reached: list[str] = []
        for one in self.line(node):
            reached.append(one)
            if self.restricted[one]:
                break
        return reached

    def on(self, node: str) -> dict[str, int]:
        """Who holds what by grants that sit on this node."""
        held = {principal: mask for (where, principal), mask in self.grants.items() if where == node}
        if node not in self.revoked:
            held[self.creator[node]] = ALL
        return held

    def mask(self, who: Who, node: str) -> int:
        held = 0
        for source in self.sources(node):
            for principal, mask in self.on(source).items():
                if principal in who.principals:
                    held |= mask
        if not who.narrow:
            return held
        return held & self.narrowed_to(who, node)

    def narrowed_to(self, who: Who, node: str) -> int:
        weights = {"read": READ, "write": READ | WRITE}
        for one in self.line(node):
            named = [weights[access] for memory, access in who.narrow if memory == one]
            if named:
                return min(named)
        return min(weights[access] for _, access in who.narrow)

    def sees(self, who: Who, node: str | None) -> bool:
        return node is not None and node in self.parent and self.mask(who, node) != 0

    def below(self, node: str) -> list[str]:
        return [one for one in self.parent if one != node and node in self.line(one)]

    def seen(self, who: Who, node: str) -> Seen:
        ancestors: list[str] = []
        for one in self.line(node)[1:]:
            if not self.sees(who, one):
                break
            ancestors.insert(0, one)
        return Seen(
            node,
            ancestors[-1] if ancestors else "",
            ancestors,
            self.restricted[node],
            self.mask(who, node),
            len(self.children(who, node, ALL)),
        )

    def children(self, who: Who, node: str, need: int) -> list[str]:
        return sorted(
            one for one, above in self.parent.items() if above == node and self.mask(who, one) & need
        )

    def entry_points(self, who: Who) -> list[str]:
        return sorted(
            one for one, above in self.parent.items() if self.sees(who, one) and not self.sees(who, above)
        )

    def descendants(self, who: Who, node: str, need: int, levels: int) -> list[tuple[int, str]]:
        found = [(self.line(one).index(node), one) for one in self.below(node) if self.mask(who, one) & need]
        return sorted(pair for pair in found if not levels or pair[0] <= levels)

    def grants_reaching(self, who: Who, node: str) -> list[tuple[str, str, int, bool]]:
        """(node, principal, mask, creator) of every grant that reaches a node from where the caller sees."""
        found: list[tuple[str, str, int, bool]] = []
        for source in self.sources(node):
            if self.sees(who, source):
                if source not in self.revoked:
                    found.append((source, self.creator[source], ALL, True))
                found += [
                    (source, principal, mask, False)
                    for (where, principal), mask in self.grants.items()
                    if where == source
                ]
        return sorted(found)

    # What a change comes to: a refusal's code, or "" and the change is made here too.

    def refusal(self, who: Who, node: str, needs: int) -> str:
        if node not in self.parent or self.mask(who, node) == 0:
            return "memory_not_found"
        return "" if self.mask(who, node) & needs == needs else "memory_forbidden"

    def create(self, who: Who, node: str, parent: str | None, *, restricted: bool) -> str:
        if parent is None and who.narrow:
            return "memory_forbidden"
        if parent is not None and (refused := self.refusal(who, parent, CREATE)):
            return refused
        self.add(node, parent, who.principals[0], restricted=restricted)
        return ""

    def update(self, who: Who, node: str, parent: str | None, restricted: bool | None, needs: int) -> str:
        """``parent`` None leaves it, "" asks for a root."""
        if refused := self.refusal(who, node, needs):
            return refused
        shown = self.seen(who, node)
        moves = parent is not None and parent != shown.parent_id
        restricts = restricted is not None and restricted != shown.restricted
        if (moves or restricts) and (refused := self.refusal(who, node, DELETE)):
            return refused
        if moves and parent and (refused := self.refusal(who, parent, CREATE)):
            return refused
        if moves and not parent and who.narrow:
            return "memory_forbidden"
        if moves and parent and node in self.line(parent):
            return "memory_invalid"
        if moves:
            self.parent[node] = parent or None
        if restricted is not None:
            self.restricted[node] = restricted
        return ""

    def delete(self, who: Who, node: str) -> str:
        if refused := self.refusal(who, node, DELETE):
            return refused
        for one in [*self.below(node), node]:
            del self.parent[one], self.restricted[one], self.creator[one]
            self.revoked.discard(one)
            for key in [key for key in self.grants if key[0] == one]:
                del self.grants[key]
        return ""

    def grant(self, who: Who, node: str, principal: str, mask: int) -> str:
        if refused := self.refusal(who, node, DELETE):
            return refused
        self.grants[node, principal] = self.grants.get((node, principal), 0) | mask
        return ""

    def revoke(self, who: Who, node: str, principal: str, *, creator: bool) -> str:
        """Of the grant of ``principal`` on the node, or of its creator's implicit one."""
        if refused := self.refusal(who, node, DELETE):
            return refused
        if creator:
            there = node not in self.revoked
            self.revoked.add(node)
        else:
            there = self.grants.pop((node, principal), None) is not None
        return "" if there else "grovekeeper_not_found"

    def attach(self, who: Who, harness: str, entries: list[tuple[str, str]]) -> str:
        """All or nothing."""
        itself, lacking = Who((harness,)), list[tuple[str, int]]()
        for node, access in entries:
            needs = READ | WRITE if access == "write" else READ
            if node in self.parent and self.mask(itself, node) & needs == needs:
                continue
            if refused := self.refusal(who, node, DELETE):
                return refused
            lacking.append((node, needs))
        for node, needs in lacking:
            self.grants[node, harness] = self.grants.get((node, harness), 0) | needs
        return ""
