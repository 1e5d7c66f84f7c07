from pathlib import Path

import msgspec
import pytest

from tests.eval.dataset import locomo
from tests.eval.measures import auroc, of_question, threshold

SESSION = {"D1:1": "one", "D1:2": "one", "D2:1": "two", "D3:1": "three"}


def test_a_question_is_scored_by_turns_and_by_their_sessions():
    scores = of_question(["D2:1", "D1:2", "D1:1"], frozenset({"D1:1", "D3:1"}), SESSION)
    assert scores["r5"] == 0.5
    assert scores["session_hit1"] == 0
    assert scores["session_ndcg5"] == pytest.approx(0.6309 / 1.6309, abs=1e-4)


def test_a_tie_counts_half():
    assert auroc([0.5, 0.9], [0.5, 0.1]) == 0.875


def test_the_threshold_parts_what_can_be_parted():
    assert 0.3 < threshold([0.7, 0.8], [0.1, 0.3]) < 0.7


def test_ids_are_taken_apart_and_those_that_name_no_turn_are_counted(tmp_path: Path):
    said = [{"speaker": "Ann", "dia_id": f"D1:{number}", "text": "Hm."} for number in (1, 2)]
    talk = {
        "speaker_a": "Ann",
        "speaker_b": "Ben",
        "session_1_date_time": "1:56 pm on 8 May, 2023",
        "session_1": said,
    }
    asked = {"question": "What?", "category": 1, "evidence": ["D1:1; D1:02", "D", "D9:9"]}
    raw = {"sample_id": "small", "conversation": talk, "observation": {}, "qa": [asked]}
    (tmp_path / "data.json").write_bytes(msgspec.json.encode([raw]))
    (read,) = locomo(tmp_path / "data.json")
    assert read.questions[0].turns == {"D1:1", "D1:2"}
    assert read.dropped == 2
    assert read.turns[0].at == "2023-05-08T13:56:00+00:00"
