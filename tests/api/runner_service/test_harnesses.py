import asyncio

import pytest

from protos.common.v1 import common_pb2
from protos.runner.v1 import runner_pb2 as wire
from tests.api.runner_service.cluster import Runner
from tests.api.runner_service.test_tasks import refused
from tests.fixtures.model_stub import ModelStub


@pytest.mark.requirement("SU-harnesses-02")
async def test_a_harness_reads_back_as_it_was_made(alone: Runner) -> None:
    made = await alone.harness(
        name="Desk",
        default_model="scripted-1",
        system_prompt="Be kind.",
        disabled_tools=["memory_forget"],
        max_step=7,
        timeout_seconds=60,
    )
    assert made.id.startswith("chrn_")
    assert made.base == "scripted"
    assert made.base_label == "Built-in scripted, no model"
    assert await alone.harnesses.GetHarness(wire.GetHarnessRequest(id=made.id)) == made
    listed = await alone.harnesses.ListHarnesses(wire.ListHarnessesRequest())
    assert made in listed.harnesses


async def test_an_update_replaces_everything_but_id_base_and_time(alone: Runner) -> None:
    made = await alone.harness(name="Before", system_prompt="x", disabled_tools=["a"], max_step=3)
    changed = await alone.harnesses.UpdateHarness(wire.UpdateHarnessRequest(id=made.id, name="After"))
    assert (changed.id, changed.base, changed.created_at) == (made.id, made.base, made.created_at)
    assert (changed.name, changed.system_prompt, list(changed.disabled_tools), changed.max_step) == (
        "After",
        "",
        [],
        0,
    )


async def test_a_deleted_harness_is_gone_and_its_responses_stay(alone: Runner) -> None:
    made = await alone.harness()
    final = await alone.run("Reply with exactly: ok", harness_id=made.id)
    await alone.harnesses.DeleteHarness(wire.DeleteHarnessRequest(id=made.id))
    for call in (
        alone.harnesses.GetHarness(wire.GetHarnessRequest(id=made.id)),
        alone.harnesses.UpdateHarness(wire.UpdateHarnessRequest(id=made.id, name="x")),
        alone.harnesses.DeleteHarness(wire.DeleteHarnessRequest(id=made.id)),
        alone.harnesses.GetMemories(wire.GetMemoriesRequest(harness_id=made.id)),
        alone.harnesses.ListModels(wire.ListModelsRequest(harness_id=made.id)),
    ):
        error = await refused(call)
        assert (error.code, error.param) == ("harness_not_found", None)
    for field, value in (("harness_id", made.id), ("previous_response_id", final["id"])):
        error = await refused(alone.create("Reply with exactly: x", **{field: value}))
        assert error.code == "harness_not_found"
        assert error.param in (field, f"metadata.{field}")
    assert await alone.get(final["id"]) == final


@pytest.mark.requirement("SU-harnesses-01")
async def test_a_harness_belongs_to_whoever_made_it(alone: Runner) -> None:
    made = await alone.harness()
    with alone.act_as("person:mallory"):
        for call in (
            alone.harnesses.GetHarness(wire.GetHarnessRequest(id=made.id)),
            alone.harnesses.UpdateHarness(wire.UpdateHarnessRequest(id=made.id, name="x")),
            alone.harnesses.DeleteHarness(wire.DeleteHarnessRequest(id=made.id)),
            alone.create("Reply with exactly: x", harness_id=made.id),
        ):
            assert (await refused(call)).code == "harness_not_found"
        listed = await alone.harnesses.ListHarnesses(wire.ListHarnessesRequest())
        assert made.id not in {one.id for one in listed.harnesses}


async def test_an_unknown_base_is_refused_with_those_there_are(alone: Runner) -> None:
    error = await refused(alone.harness(base="codex"))
    assert (error.code, error.detail) == ("unsupported_base", {"supported": ["scripted"]})


async def test_a_harness_needs_a_name_and_sane_budgets(alone: Runner) -> None:
    for more, param in (
        ({"name": " "}, "name"),
        ({"max_step": -1}, "max_step"),
        ({"disabled_tools": [""]}, "disabled_tools"),
    ):
        error = await refused(alone.harness(**more))
        assert (error.code, error.param) == ("invalid_input", param)


async def test_a_task_without_a_harness_runs_on_the_callers_default_one(alone: Runner) -> None:
    runs = await asyncio.gather(*(alone.run("Reply with exactly: ok") for _ in range(3)))
    ids = {final["metadata"]["harness_id"] for final in runs}
    assert len(ids) == 1
    default = await alone.harnesses.GetHarness(wire.GetHarnessRequest(id=ids.pop()))
    assert (default.name, default.base) == ("Default", "scripted")
    with alone.act_as("person:bob"):
        listed = (await alone.harnesses.ListHarnesses(wire.ListHarnessesRequest())).harnesses
        assert [one.name for one in listed] == ["Default"]
        assert listed[0].id != default.id


async def test_a_default_harness_that_is_deleted_is_made_anew(alone: Runner) -> None:
    first = (await alone.run("Reply with exactly: ok"))["metadata"]["harness_id"]
    await alone.harnesses.DeleteHarness(wire.DeleteHarnessRequest(id=first))
    assert (await alone.run("Reply with exactly: ok"))["metadata"]["harness_id"] != first


async def test_a_repeated_key_makes_one_harness(alone: Runner) -> None:
    def create(name: str) -> wire.CreateHarnessRequest:
        key = common_pb2.Idempotency(key="k", request_sha256=name.encode())
        return wire.CreateHarnessRequest(name=name, base="scripted", idempotency=key)

    answers = await asyncio.gather(*(alone.harnesses.CreateHarness(create("A")) for _ in range(4)))
    assert len({one.id for one in answers}) == 1
    error = await refused(alone.harnesses.CreateHarness(create("B")))
    assert error.code == "grovekeeper_idempotency_mismatch"


@pytest.mark.requirement("ME-12-04")
async def test_a_harness_without_memories_says_so(alone: Runner) -> None:
    made = await alone.harness()
    error = await refused(alone.harnesses.GetMemories(wire.GetMemoriesRequest(harness_id=made.id)))
    assert error.code == "memories_not_attached"
    emptied = await alone.harnesses.SetMemories(wire.SetMemoriesRequest(harness_id=made.id))
    assert list(emptied.memories) == []


@pytest.mark.requirement("ME-12-06")
async def test_attachments_that_contradict_themselves_are_invalid(alone: Runner) -> None:
    made = await alone.harness()

    def entry(memory_id: str, access: str, *, default: bool = False) -> wire.Attachment:
        return wire.Attachment(memory_id=memory_id, access=access, is_default=default)

    for memories in (
        [entry("hmem_1", "read"), entry("hmem_1", "write")],
        [entry("hmem_1", "write", default=True), entry("hmem_2", "write", default=True)],
        [entry("hmem_1", "read", default=True)],
        [entry("hmem_1", "admin")],
    ):
        request = wire.SetMemoriesRequest(harness_id=made.id, memories=memories)
        assert (await refused(alone.harnesses.SetMemories(request))).code == "memory_invalid"


# -- models ------------------------------------------------------------------------------------------------


async def test_without_a_model_only_the_scripted_base_is_offered(alone: Runner) -> None:
    found = (await alone.harnesses.ListModels(wire.ListModelsRequest())).backends
    assert [(one.name, one.default_model) for one in found] == [("scripted", "scripted-1")]
    (model,) = found[0].models
    assert (model.id, model.backend, model.available, model.is_default) == (
        "scripted-1",
        "scripted",
        True,
        True,
    )


@pytest.mark.requirement("SU-harnesses-10")
async def test_with_a_model_its_endpoint_says_what_is_there(looped: Runner, stub: ModelStub) -> None:
    made = await looped.harness(base="loop", default_model="stub-2")
    (found,) = (await looped.harnesses.ListModels(wire.ListModelsRequest(harness_id=made.id))).backends
    assert (found.name, found.default_model) == ("loop", "stub-2")
    assert [(one.id, one.available, one.is_default) for one in found.models] == [
        ("stub-1", True, False),
        ("stub-2", True, True),
    ]
    assert (
        await refused(looped.create("hi", harness_id=made.id, model="stub-3"))
    ).code == "model_unavailable"
    assert (await looped.run("hi", harness_id=made.id, model="stub-1"))["model"] == "stub-1"
    assert (await looped.run("hi", harness_id=made.id))["model"] == "stub-2"


async def test_with_a_model_the_default_harness_has_it(looped: Runner) -> None:
    final = await looped.run("hi")
    default = await looped.harnesses.GetHarness(wire.GetHarnessRequest(id=final["metadata"]["harness_id"]))
    assert default.base == "loop"
    assert final["output"][0]["content"][0]["text"] == "Hello."
