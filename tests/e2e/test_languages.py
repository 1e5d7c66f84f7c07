# ruff: noqa: RUF001 - the signs of other scripts are meant

"""Memories in any language and script: found by what is asked, and never an error."""

from typing import Final

import pytest

from tests.e2e.caller import Json
from tests.e2e.people import Person

SAID: Final = (
    "Die Verträge mit der Bäckerei enden im März.",
    "Marie préfère être appelée après seize heures.",
    "Las canciones de mi hermano son muy tristes.",
    "Большая кошка спала на диване весь день.",
    "العقود تتجدد كل سنة في شهر مارس",
    "Kitaplar masanın üzerinde duruyor.",
    "我们在三月续约合同",
    "私は東京に住んでいます",
    "한국어로 이야기합시다",
    "แมวนอนบนโซฟา",
    "मेरी लड़की दिल्ली में रहती है",
    "🎉🚀👩\u200d👩\u200d👧",
    "Meeting mit 田中さん über Проект Заря am Montag 🎯",
    "\u202bהחוזה מתחדש במרץ\u202c\u200f",
    "zero\u200bwidth and soft\u00adhyphen",
    "The hub at Mill Street blinks amber because it cannot join the Wi-Fi.",
)
ASKED: Final = (
    ("Vertrag", 0),
    ("vertrage Backerei", 0),
    ("préférer", 1),
    ("cancion", 2),
    ("canción", 2),
    ("кошки", 3),
    ("عقود", 4),
    ("kitap", 5),
    ("合同", 6),
    ("东京 東京", 7),
    ("이야기", 8),
    ("แมว", 9),
    ("लड़का", 10),
    ("🚀", 11),
    ("👩", 11),
    ("田中", 12),
    ("Заря", 12),
    ("🎯", 12),
    ("החוזה", 13),
    ("zerowidth", 14),
    ("so\u200bft\u00adhyphen", 14),
    ("blinking", 15),
)
STRANGE: Final = (
    "a",
    "Я",
    "合",
    "ي",
    "ก",
    "🎉",
    "é",
    "\u200f\u202e",
    "\u200b",
    "ﷺ",
    "½",
    "𝔘𝔫𝔦",
    "Z\u0338\u035aalgo\u0338\u031b",
)


@pytest.fixture
def memory(alice: Person) -> str:
    """A memory of all of it."""
    memory = alice.plant("Babel")
    for text in SAID:
        alice.fact(memory, text)
    return memory


def recalled(who: Person, memory: str, **asked: object) -> Json:
    return who.post(f"/v1/memories/{memory}/recall", asked)


def texts(answer: Json) -> list[str]:
    return [one["record"]["content"] for one in answer["results"]]


def test_a_record_is_found_by_its_words_in_every_language_and_script(alice: Person, memory: str):
    for asked, place in ASKED:
        answer = recalled(alice, memory, text=asked)
        assert texts(answer)[:1] == [SAID[place]], asked
        assert not answer["abstain"], asked
        assert SAID[place] in texts(recalled(alice, memory, query=asked))[:3], asked


def test_the_strangest_question_is_answered(alice: Person, memory: str):
    for asked in STRANGE:
        assert recalled(alice, memory, query=asked)["results"], asked
        answer = recalled(alice, memory, text=asked)
        assert answer["results"] or answer["abstain_reason"] == "nothing_stored", asked


def test_a_question_of_stop_words_alone_is_answered(alice: Person, memory: str):
    assert recalled(alice, memory, query="und der, the and")["results"]
    assert SAID[0] in texts(recalled(alice, memory, text="im"))


def test_what_is_revised_into_another_language_is_found_by_its_words(alice: Person):
    memory = alice.plant("Translated")
    kept = alice.fact(memory, "The cats are sleeping on the sofa of the neighbour.")
    german = "Die Katzen schlafen auf dem Sofa der Nachbarin."
    alice.send("PATCH", f"/v1/memories/{memory}/records/{kept}", {"content": german})
    assert texts(recalled(alice, memory, text="Katze")) == [german]
    assert texts(recalled(alice, memory, text="cat")) == []


def test_the_language_of_a_hidden_memory_is_not_asked_in(alice: Person, bob: Person):
    """A word that is a stop word there alone counts as a word here."""
    answers = list[Json]()
    for hides in (True, False):
        memory = alice.plant("Shared")
        alice.give(memory, bob, "read")
        alice.fact(memory, "Many plants die in winter.")
        if hides:
            alice.fact(
                alice.plant("Hidden", memory, restricted=True), "Die Katze schläft auf dem neuen Sofa."
            )
        answers.append(recalled(bob, memory, text="die", query="die", depth=3, explain=True))
    one, other = ({**answer, "results": [hit["signals"] for hit in answer["results"]]} for answer in answers)
    assert texts(answers[0]) == ["Many plants die in winter."]
    assert one == other
    assert answers[0]["results"][0]["signals"]["words"] > 0
