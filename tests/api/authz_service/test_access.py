"""Access over gRPC: decisions and listings for several callers."""

from collections.abc import Awaitable, Callable

import grpc
import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanContext, SpanKind

from protos.authz.v1 import authz_pb2 as wire
from protos.authz.v1 import authz_pb2_grpc as rpc
from service_kit import telemetry
from service_kit.ids import new_id
from tests.api.authz_service.service import (
    ALL,
    ANY,
    CREATE,
    DELETE,
    READ,
    WRITE,
    Authz,
    Bearer,
    refusal,
)


def ids(page: wire.NodePage) -> list[str]:
    return [node.id for node in page.nodes]


@pytest.mark.requirement("ME-3.1-04", "ME-2-05")
async def test_a_creator_holds_everything_and_it_flows_down(alice: Bearer):
    root = await alice.create()
    child = await alice.create(root.id)
    leaf = await alice.check((await alice.create(child.id)).id)
    assert list(root.privileges) == ALL
    assert (leaf.parent_id, list(leaf.ancestors), list(leaf.privileges)) == (
        child.id,
        [root.id, child.id],
        ALL,
    )
    assert (await alice.check(root.id)).children_count == 1
    assert not root.parent_id
    assert not root.ancestors


@pytest.mark.requirement("ME-3.1-02", "ME-3.2-01", "ME-3.2-02")
async def test_a_grant_reaches_down_to_the_cutoff_and_no_further(alice: Bearer, bob: Bearer):
    root = await alice.create()
    open_child, closed = await alice.create(root.id), await alice.create(root.id, restricted=True)
    below = await alice.create(closed.id)
    await alice.grant(root.id, "person:bob", READ)
    assert list((await bob.check(open_child.id)).privileges) == [READ]
    for hidden in (closed, below):
        assert (await refusal(bob.check(hidden.id))).code == "memory_not_found"
    assert (await bob.check(root.id)).children_count == 1
    await alice.grant(closed.id, "person:bob", WRITE)
    seen = await bob.check(below.id)
    assert (list(seen.privileges), list(seen.ancestors)) == ([WRITE], [root.id, closed.id])


@pytest.mark.requirement("ME-12-02")
async def test_what_is_lacking_is_forbidden_only_where_something_is_held(alice: Bearer, bob: Bearer):
    root, other = await alice.create(), await alice.create()
    await alice.grant(root.id, "person:bob", READ, CREATE)
    for held in (READ, CREATE, ANY):
        assert (await bob.check(root.id, held)).id == root.id
    for lacked in (WRITE, DELETE):
        assert (await refusal(bob.check(root.id, lacked))).code == "memory_forbidden"
        assert (await refusal(bob.check(other.id, lacked))).code == "memory_not_found"


async def test_a_group_of_the_token_counts_as_the_caller(alice: Bearer, bob: Bearer):
    root = await alice.create()
    await alice.grant(root.id, "group:sales", READ)
    await alice.grant(root.id, "person:bob", WRITE)
    assert list((await bob.check(root.id)).privileges) == [READ, WRITE]
    assert ids(await bob.entry_points()) == [root.id]


@pytest.mark.requirement("ME-2-18", "ME-13-05")
async def test_unknown_and_forbidden_answer_with_the_same_bytes(authz: Authz, alice: Bearer, bob: Bearer):
    hidden = (await alice.create()).id
    await alice.create(hidden)
    own = (await bob.create()).id
    unknown = (new_id("hmem"), "hmem_" + "f" * 32, "hmem_" + "0" * 32, "not an id", "", "hmem_\0")
    access, tree, grants = rpc.AccessStub, rpc.TreeStub, rpc.GrantsStub
    questions: list[Callable[[grpc.aio.Channel, str], Awaitable[object]]] = [
        lambda raw, node: access(raw).Check(
            wire.CheckRequest(memory_id=node, required=READ), timeout=5, metadata=bob_says
        ),
        lambda raw, node: access(raw).ListChildren(
            wire.ListChildrenRequest(memory_id=node), timeout=5, metadata=bob_says
        ),
        lambda raw, node: access(raw).ListDescendants(
            wire.ListDescendantsRequest(memory_id=node), timeout=5, metadata=bob_says
        ),
        lambda raw, node: access(raw).Reach(wire.ReachRequest(memory_id=node), timeout=5, metadata=bob_says),
        lambda raw, node: tree(raw).UpdateNode(
            wire.UpdateNodeRequest(id=node, restricted=True), timeout=5, metadata=bob_says
        ),
        lambda raw, node: tree(raw).UpdateNode(
            wire.UpdateNodeRequest(id=own, parent_id=node or "x"), timeout=5, metadata=bob_says
        ),
        lambda raw, node: tree(raw).CreateNode(
            wire.CreateNodeRequest(id=new_id("hmem"), parent_id=node or "x"), timeout=5, metadata=bob_says
        ),
        lambda raw, node: tree(raw).DeleteNode(wire.DeleteNodeRequest(id=node), timeout=5, metadata=bob_says),
        lambda raw, node: grants(raw).ListGrants(
            wire.ListGrantsRequest(memory_id=node), timeout=5, metadata=bob_says
        ),
        lambda raw, node: grants(raw).AddGrant(
            wire.AddGrantRequest(memory_id=node, principal="person:bob", privileges=[READ]),
            timeout=5,
            metadata=bob_says,
        ),
        lambda raw, node: grants(raw).RevokeGrant(
            wire.RevokeGrantRequest(memory_id=node, grant_id="hgrt_1"), timeout=5, metadata=bob_says
        ),
        lambda raw, node: grants(raw).AttachHarness(
            wire.AttachHarnessRequest(
                harness_id="chrn_" + "0" * 32, entries=[wire.Narrowing(memory_id=node, access="read")]
            ),
            timeout=5,
            metadata=bob_says,
        ),
    ]
    bob_says = (("grove-passport", bob.passport.token),)
    async with grpc.aio.insecure_channel(authz.address) as raw:
        for ask in questions:
            answers = {await told(ask(raw, node)) for node in (hidden, *unknown)}
            assert len(answers) == 1, answers
            assert answers.pop()[0] is grpc.StatusCode.NOT_FOUND


async def told(call: Awaitable[object]) -> tuple[grpc.StatusCode, str | None, object]:
    """All of a refusal that a caller could tell apart."""
    with pytest.raises(grpc.aio.AioRpcError) as raised:
        await call
    return raised.value.code(), raised.value.details(), tuple(raised.value.trailing_metadata())


async def test_a_decision_can_be_had_without_the_count(alice: Bearer):
    root = (await alice.create()).id
    await alice.create(root)
    request = wire.CheckRequest(memory_id=root, required=READ, omit_children_count=True)
    decided = await alice.ask_check(request)
    assert (decided.id, decided.children_count) == (root, 0)
    assert (await alice.check(root, READ)).children_count == 1


async def test_checking_many_leaves_out_what_is_not_held(alice: Bearer, bob: Bearer):
    nodes = [(await alice.create()).id for _ in range(4)]
    await alice.grant(nodes[0], "person:bob", READ)
    await alice.grant(nodes[2], "person:bob", WRITE)
    asked = [nodes[2], new_id("hmem"), nodes[1], nodes[0], nodes[2], "nonsense"]
    assert await bob.check_many(asked) == [nodes[2], nodes[0]]
    assert await bob.check_many(asked, READ) == [nodes[0]]
    assert await bob.check_many([]) == []
    assert (await refusal(bob.check_many(["x"] * 1001))).param == "memory_ids"


async def test_children_are_paged_by_cursors_that_changes_do_not_disturb(alice: Bearer, bob: Bearer):
    root = (await alice.create()).id
    children = sorted([(await alice.create(root)).id for _ in range(5)])
    await alice.grant(root, "person:bob", READ)
    first = await bob.children(root, limit=2)
    assert ids(first) == children[:2]
    assert first.nodes[0].parent_id == root
    await alice.delete(children[0])
    await alice.delete(children[1])
    late = (await alice.create(root)).id
    second = await bob.children(root, limit=2, cursor=first.next_cursor)
    assert ids(second) == children[2:4]
    last = await bob.children(root, limit=2, cursor=second.next_cursor)
    assert ids(last) == [children[4], late]
    assert not last.next_cursor


async def test_children_can_be_asked_for_by_privilege(alice: Bearer, bob: Bearer):
    root = (await alice.create()).id
    one, two = (await alice.create(root)).id, (await alice.create(root, restricted=True)).id
    await alice.grant(root, "person:bob", CREATE)
    await alice.grant(two, "person:bob", READ)
    assert ids(await bob.children(root)) == sorted([one, two])
    assert ids(await bob.children(root, READ)) == [two]
    assert ids(await bob.children(root, CREATE)) == [one]


@pytest.mark.requirement("ME-2-13")
async def test_a_caller_enters_at_its_branches(alice: Bearer, bob: Bearer):
    root = (await alice.create()).id
    branch = (await alice.create(root)).id
    deep = (await alice.create((await alice.create(branch)).id)).id
    other = (await alice.create(root)).id
    await alice.grant(branch, "person:bob", READ)
    await alice.grant(deep, "person:bob", WRITE)
    await alice.grant(other, "group:sales", READ)
    mine = (await bob.create()).id
    page = await bob.entry_points()
    assert ids(page) == sorted([branch, other, mine])
    assert [node.parent_id for node in page.nodes] == ["", "", ""]
    first = await bob.entry_points(limit=1)
    rest = await bob.entry_points(limit=5, cursor=first.next_cursor)
    assert ids(first) + ids(rest) == ids(page)
    assert not rest.next_cursor


@pytest.mark.requirement("ME-2-14")
async def test_descendants_are_complete_below_what_is_hidden(alice: Bearer, bob: Bearer):
    root = (await alice.create()).id
    hidden = (await alice.create(root, restricted=True)).id
    still = (await alice.create(hidden)).id
    deep = (await alice.create(still)).id
    near = (await alice.create(root)).id
    await alice.grant(root, "person:bob", READ)
    await alice.grant(deep, "person:bob", READ)
    page = await bob.descendants(root)
    assert [(node.depth, node.id) for node in page.nodes] == [(1, near), (3, deep)]
    assert page.nodes[1].parent_id == ""
    assert list(page.nodes[1].ancestors) == []
    assert ids(await bob.descendants(root, max_depth=2)) == [near]
    assert ids(await alice.descendants(root)) == [*sorted([hidden, near]), still, deep]


async def test_descendants_are_paged_nearest_first(alice: Bearer):
    root = (await alice.create()).id
    level = [root]
    expected: list[tuple[int, str]] = []
    for depth in (1, 2, 3):
        level = sorted([(await alice.create(above)).id for above in level for _ in range(2)])
        expected += [(depth, one) for one in level]
    found, cursor = list[tuple[int, str]](), ""
    while True:
        page = await alice.descendants(root, limit=3, cursor=cursor)
        found += [(node.depth, node.id) for node in page.nodes]
        cursor = page.next_cursor
        if not cursor:
            break
    assert found == expected


async def test_a_search_reaches_exactly_what_may_be_read_nearest_first(alice: Bearer, bob: Bearer):
    root = (await alice.create()).id
    hidden = (await alice.create(root, restricted=True)).id
    deep = (await alice.create((await alice.create(hidden)).id)).id
    near = [(await alice.create(root)).id for _ in range(3)]
    await alice.grant(root, "person:bob", READ)
    await alice.grant(deep, "person:bob", READ)
    for limit, found, more in ((0, 4, False), (4, 4, False), (3, 3, True)):
        told = await bob.reach(root, READ, limit=limit)
        assert (list(told.memory_ids), told.more) == ([*sorted(near), deep][:found], more)
    assert list((await bob.reach(root, READ, max_depth=2)).memory_ids) == sorted(near)
    assert list((await bob.reach(root, WRITE)).memory_ids) == []


@pytest.mark.parametrize("cursor", ["nonsense", "WyJ4Il0x", "Wzsd", "WzFd", "WyJoIiwgMV0"])
async def test_a_cursor_of_somebody_elses_is_refused(alice: Bearer, cursor: str):
    root = (await alice.create()).id
    for call in (
        alice.children(root, cursor=cursor),
        alice.entry_points(cursor=cursor),
        alice.descendants(root, cursor=cursor),
    ):
        error = await refusal(call)
        assert (error.code, error.param) == ("invalid_input", "cursor")


async def test_limits_and_depths_that_make_no_sense_are_refused(alice: Bearer):
    root = (await alice.create()).id
    assert (await refusal(alice.children(root, limit=-1))).param == "limit"
    assert (await refusal(alice.descendants(root, max_depth=-1))).param == "max_depth"
    assert (await refusal(alice.reach(root, max_depth=-1))).param == "max_depth"
    assert (await refusal(alice.reach(root, limit=-1))).param == "limit"


@pytest.mark.requirement("ME-9-07", "ME-9-08")
async def test_a_narrowed_harness_reads_only_where_it_is_attached_to_read(authz: Authz, alice: Bearer):
    harness = new_id("chrn")
    root = (await alice.create()).id
    child = (await alice.create(root)).id
    other = (await alice.create()).id
    await alice.grant(root, f"harness:{harness}", *ALL)
    await alice.grant(other, f"harness:{harness}", READ, WRITE)
    free = await authz.harness(harness)
    assert list((await free.check(child)).privileges) == ALL
    narrowed = await authz.harness(harness, (root, "read"))
    for node in (root, child, other):
        assert list((await narrowed.check(node)).privileges) == [READ]
        assert (await refusal(narrowed.check(node, WRITE))).code == "memory_forbidden"
    writing = await authz.harness(harness, (root, "read"), (child, "write"))
    assert list((await writing.check(child)).privileges) == [READ, WRITE]
    assert list((await writing.check(root)).privileges) == [READ]
    assert list((await writing.check(other)).privileges) == [READ]
    assert ids(await writing.descendants(root, WRITE)) == [child]
    for call in (
        writing.create(child),
        writing.create(),
        writing.delete(child),
        writing.grant(child, "person:mallory", READ),
        writing.update(child, restricted=True),
    ):
        assert (await refusal(call)).code == "memory_forbidden"


async def test_a_decision_and_its_statement_are_seen_in_the_trace_of_the_caller(
    authz: Authz, alice: Bearer, span_recorder: InMemorySpanExporter
):
    root = (await alice.create()).id
    await alice.create(root)
    span_recorder.clear()
    with telemetry.tracer(__name__).start_as_current_span("asking"):
        await alice.check(root)
        trace = telemetry.trace_id()
    spans = [span for span in span_recorder.get_finished_spans() if f"{own(span).trace_id:032x}" == trace]
    names = [span.name for span in spans]
    assert names.count("grovekeeper.authz.v1.Access/Check") == 2  # the caller's side and ours
    served = next(span for span in spans if span.kind is SpanKind.SERVER)
    statements = [span for span in spans if span.name.startswith("SELECT")]
    # What changed, when the tree is held here; else the decision, and the count of the children.
    assert len(statements) in (1, 2)
    assert {span.parent.span_id for span in statements if span.parent} == {own(served).span_id}
    told = " ".join(str(span.attributes) for span in spans)
    assert root not in told
    assert "person:alice" not in told


def own(span: ReadableSpan) -> SpanContext:
    """A span's own ids."""
    assert span.context is not None
    return span.context
