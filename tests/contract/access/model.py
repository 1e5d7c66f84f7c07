"""A second, naive reading of Memories, sections 2, 3 and 9, to hold authz_service against.

It shares nothing with the service: plain dictionaries, and every answer worked out from the definitions.
"""

from dataclasses import dataclass, field
from itertools import takewhile

READ, WRITE, CREATE, DELETE = 1, 2, 4, 8
ALL = 15


@dataclass(frozen=True)
class Who:
    """A caller: itself first, then the groups its credential names; what it is narrowed to as (memory id, access)."""

    principals: tuple[str, ...]
    narrow: tuple[tuple[str, str], ...] = ()
    admin: bool = False


@dataclass(frozen=True)
class Seen:
    """What a caller is shown of a node."""

    id: str
    parent_id: str
    ancestors: tuple[str, ...]
    restricted: bool
    mask: int
    children: int


@dataclass(frozen=True, order=True)
class Why:
    """A grant in an explanation: where it sits, whose it is, what it gives, and how it comes to count or not."""

    node: str
    principal: str
    mask: int
    creator: bool
    via_group: str
    stopped_at: str


@dataclass
class Model:
    """The tree, its grants, the groups and the marks of work under way."""

    parent: dict[str, str | None] = field(default_factory=dict[str, str | None])
    restricted: dict[str, bool] = field(default_factory=dict[str, bool])
    creator: dict[str, str] = field(default_factory=dict[str, str])
    revoked: set[str] = field(default_factory=set[str])
    grants: dict[tuple[str, str], int] = field(default_factory=dict[tuple[str, str], int])
    members: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    held: set[str] = field(default_factory=set[str])

    # The rules.

    def line(self, node: str) -> list[str]:
        """The node and its ancestors, upward."""
        above = self.parent[node]
        return [node] if above is None else [node, *self.line(above)]

    def cutoff(self, node: str) -> str:
        """The nearest restricted one of them."""
        return next((one for one in self.line(node) if self.restricted[one]), "")

    def sources(self, node: str) -> list[str]:
        """The nodes whose grants reach this one: up to and including the nearest restricted one."""
        line = self.line(node)
        cutoff = self.cutoff(node)
        return line[: line.index(cutoff) + 1] if cutoff else line

    def on(self, node: str) -> list[tuple[str, int, bool]]:
        """(principal, mask, creator) of every grant that sits on this node."""
        implicit = [] if node in self.revoked else [(self.creator[node], ALL, True)]
        return implicit + [(who, mask, False) for (where, who), mask in self.grants.items() if where == node]

    def groups(self, principal: str) -> set[str]:
        return {group for member, group in self.members if member == principal}

    def mask(self, who: Who, node: str) -> int:
        principals = {*who.principals, *self.groups(who.principals[0])}
        held = 0
        for source in self.sources(node):
            for principal, mask, _ in self.on(source):
                held |= mask if principal in principals else 0
        return held & self.narrowed_to(who, node) if who.narrow else held

    def narrowed_to(self, who: Who, node: str) -> int:
        weights = {"read": READ, "write": READ | WRITE}
        for one in self.line(node):
            if named := [weights[access] for memory, access in who.narrow if memory == one]:
                return min(named)
        return min(weights[access] for _, access in who.narrow)

    # What is answered.

    def sees(self, who: Who, node: str | None) -> bool:
        return node is not None and node in self.parent and self.mask(who, node) != 0

    def refusal(self, who: Who, node: str, needs: int) -> str:
        if not self.sees(who, node):
            return "memory_not_found"
        return "" if self.mask(who, node) & needs == needs else "memory_forbidden"

    def below(self, node: str) -> list[str]:
        return [one for one in self.parent if one != node and node in self.line(one)]

    def seen(self, who: Who, node: str) -> Seen:
        ancestors: list[str] = []
        for one in self.line(node)[1:]:
            if not self.sees(who, one):
                break
            ancestors.insert(0, one)
        parent = ancestors[-1] if ancestors else ""
        children = len(self.children(who, node, ALL))
        return Seen(node, parent, tuple(ancestors), self.restricted[node], self.mask(who, node), children)

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
        return sorted(
            (source, *grant)
            for source in self.sources(node)
            if self.sees(who, source)
            for grant in self.on(source)
        )

    def explanation(self, who: Who, node: str, principal: str, named: set[str]) -> tuple[int, list[Why]]:
        """What a principal holds by the grants the asker may know, and those grants, stopped ones too. To name
        one beyond a memory the asker does not see would be to tell of that memory.
        """
        groups = named | self.groups(principal)
        reasons: list[Why] = []
        for source in takewhile(lambda one: who.admin or self.sees(who, one), self.line(node)):
            stopped = "" if source in self.sources(node) else self.cutoff(node)
            reasons += [
                Why(source, holder, mask, creator, "" if holder == principal else holder, stopped)
                for holder, mask, creator in self.on(source)
                if holder == principal or holder in groups
            ]
        held = 0
        for reason in reasons:
            held |= 0 if reason.stopped_at else reason.mask
        return held, sorted(reasons)

    # What a change comes to: a refusal's code, or "" and the change is made here too.

    def add(self, node: str, parent: str | None, creator: str, *, restricted: bool) -> None:
        self.parent[node] = parent
        self.restricted[node] = restricted
        self.creator[node] = creator

    def create(self, who: Who, node: str, parent: str | None, *, restricted: bool) -> str:
        if node in self.parent:
            own = self.creator[node] == who.principals[0]
            return self.refusal(who, node, 0) if own else "grovekeeper_conflict"
        if parent is None and who.narrow:
            return "memory_forbidden"
        if parent is not None and (refused := self.refusal(who, parent, CREATE)):
            return refused
        self.add(node, parent, who.principals[0], restricted=restricted)
        # Under a narrowing what was just made may be out of its maker's sight.
        return self.refusal(who, node, 0)

    def busy(self, node: str) -> bool:
        return any(node in self.line(one) for one in self.held)

    def update(self, who: Who, node: str, parent: str | None, restricted: bool | None, needs: int) -> str:
        """``parent`` None leaves it, "" asks for a root."""
        if refused := self.refusal(who, node, needs):
            return refused
        shown = self.seen(who, node)
        moves = parent is not None and parent != shown.parent_id
        restricts = restricted is not None and restricted != shown.restricted
        if (moves or restricts) and (refused := self.refusal(who, node, DELETE)):
            return refused
        if moves and (refused := self.move_refusal(who, node, parent or "")):
            return refused
        if moves:
            self.parent[node] = parent or None
        if restricted is not None:
            self.restricted[node] = restricted
        return ""

    def move_refusal(self, who: Who, node: str, parent: str) -> str:
        if self.busy(node):
            return "memory_busy"
        if not parent:
            return "memory_forbidden" if who.narrow else ""
        if refused := self.refusal(who, parent, CREATE):
            return refused
        return "memory_invalid" if node in self.line(parent) else ""

    def delete(self, who: Who, node: str) -> str:
        if refused := self.refusal(who, node, DELETE):
            return refused
        if self.busy(node):
            return "memory_busy"
        for one in [*self.below(node), node]:
            del self.parent[one], self.restricted[one], self.creator[one]
            self.revoked.discard(one)
            self.grants = {key: mask for key, mask in self.grants.items() if key[0] != one}
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

    def drop_group(self, group: str) -> None:
        self.members = {pair for pair in self.members if pair[1] != group}
        self.grants = {key: mask for key, mask in self.grants.items() if key[1] != group}
