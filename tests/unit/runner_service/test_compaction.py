from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from runner_service.agent_loop.compaction import compact
from runner_service.domain.model import Item


def turn(number: int, size: int = 100) -> list[Item]:
    said: Any = [{"type": "output_text", "text": "a" * size}]
    return [
        {"type": "message", "role": "user", "text": f"question {number}"},
        {"type": "message", "role": "assistant", "content": said},
    ]


def turns(count: int) -> list[Item]:
    return [item for number in range(count) for item in turn(number)]


def test_a_conversation_within_the_bound_is_shown_whole() -> None:
    history = turns(5)
    assert compact(history, 100_000) == (history, 0, False)
    assert compact([], 1) == ([], 0, False)


def test_the_oldest_turns_go_and_their_number_is_said() -> None:
    kept, left_out, newly = compact(turns(20), 1_500)
    assert left_out > 0
    assert kept[0]["text"] == (
        f"The first {left_out} turns of this conversation are left out, because it has grown too long to be shown whole."
    )
    assert kept[1:] == turns(20)[2 * left_out :]
    assert not newly or compact(turns(19), 1_500)[1] < left_out


def test_what_is_shown_only_grows_between_two_cuts() -> None:
    cuts, said = list[int](), list[bool]()
    for count in range(1, 60):
        _, left_out, newly = compact(turns(count), 3_000)
        cuts.append(left_out)
        said.append(newly)
    assert cuts == sorted(cuts)
    # Each cut is told once, in the turn that makes it, and there are few of them.
    moved = [before != after for before, after in zip([0, *cuts], cuts, strict=False)]
    assert said == moved
    assert 2 < sum(said) < 8


def test_the_last_turn_stays_however_long_it_is() -> None:
    kept, left_out, _ = compact([*turns(3), *turn(4, 100_000)], 1_000)
    assert left_out == 3
    assert kept[1:] == turn(4, 100_000)


@given(st.lists(st.integers(0, 500), max_size=30), st.integers(1, 2_000))
def test_no_turn_is_cut_in_two(sizes: list[int], most: int) -> None:
    history = [item for number, size in enumerate(sizes) for item in turn(number, size)]
    kept, left_out, _ = compact(history, most)
    assert list(kept[1:] if left_out else kept) == history[2 * left_out :]
    assert left_out < max(len(sizes), 1)
