"""Taking turns: half of the places for one caller, and none that is lost by who gives up."""

import asyncio

import pytest

from provider_workers.domain.turns import Turns
from service_kit.errors import GroveError


async def test_one_caller_leaves_half_of_the_places_to_others():
    turns = Turns(running=2, waiting=4, wait_s=0.05, what="files")
    async with turns.turn("a"):
        with pytest.raises(GroveError, match="Too many files are waiting"):
            async with turns.turn("a"):
                pass
        async with turns.turn("b"):
            pass
    async with turns.turn("a"):
        pass


async def test_who_gives_up_as_a_place_becomes_free_takes_none():
    turns = Turns(running=1, waiting=4, wait_s=1.0, what="files")

    async def wait() -> None:
        async with turns.turn("b"):
            pass

    async with turns.turn("a"):
        waiting = asyncio.create_task(wait())
        await asyncio.sleep(0)
        waiting.cancel()
    # The place became free after it was cancelled and before it could know.
    with pytest.raises(asyncio.CancelledError):
        await waiting
    async with turns.turn("c"):
        pass
