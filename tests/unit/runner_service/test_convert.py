from runner_service.api.convert import batches
from runner_service.domain.model import Event


def test_events_travel_together_until_a_message_would_grow_too_large() -> None:
    events = [
        Event(n, "response.output_text.delta", b"x" * size)
        for n, size in enumerate([10, 600_000, 600_000, 5])
    ]
    events.append(Event(4, "response.completed", b"x" * 3_000_000, terminal=True))
    sent = list(batches(events))
    assert [[one.sequence_number for one in batch.events] for batch in sent] == [[0, 1], [2, 3], [4]]
    assert sent[-1].events[0].terminal
    assert list(batches([])) == []
