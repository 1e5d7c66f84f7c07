# ruff: noqa: RUF001 - the signs of other scripts are meant

"""The native provider finds words in the forms of their language."""

import pytest

from provider_workers.adapters.native.adapter import Options
from provider_workers.adapters.native.lexemes import languages_of, lexed
from service_kit.db.pool import Database
from tests.contract.providers.conftest import Bench
from tests.contract.providers.subject import Subject, found

FORMS = [
    ("Die Katze schläft auf dem neuen Sofa.", "Katzen"),
    ("Die Häuser am See wurden verkauft.", "Haus"),
    ("Les chats dorment sur le canapé de ma voisine.", "chat"),
    ("Nous avons renouvelé les contrats en mars.", "renouveler"),
    ("Los gatos duermen en el jardín de la abuela.", "gato"),
    ("Las canciones de mi hermano son muy tristes.", "cancion"),
    ("Большая кошка спала на диване весь день.", "кошки"),
    ("Мы подписали новый договор в марте.", "договоры"),
    ("العقود تتجدد كل سنة في شهر مارس", "عقود"),
    ("Kitaplar masanın üzerinde duruyor.", "kitap"),
    ("IŞIKLAR bütün gece açık kaldı.", "ışıklar"),
    ("I contratti scadono alla fine di marzo.", "contratto"),
]


@pytest.mark.parametrize(("said", "asked"), FORMS)
async def test_a_word_is_found_by_another_form_of_its_language(subject: Subject, said: str, asked: str):
    memory = subject.memory()
    await subject.state(memory, "The hub at Mill Street blinks amber because it cannot join the Wi-Fi.")
    await subject.state(memory, said)
    answer = await subject.ask(memory, text=asked)
    assert found(answer) == [said]
    assert "query" in (await subject.ask(memory, asked)).hits[0].why


async def test_a_short_text_is_in_a_language_its_memory_holds(subject: Subject):
    memory, other = subject.memory(), subject.memory()
    await subject.state(memory, "Die Kinder spielen seit heute Morgen im Garten.")
    for one in (memory, other):
        await subject.state(one, "Katze")
    assert found(await subject.ask(memory, text="Katzen")) == ["Katze"]
    assert found(await subject.ask(other, text="Katzen")) == []


async def test_memories_of_several_languages_are_asked_together(subject: Subject):
    german, french, english = (subject.memory() for _ in range(3))
    await subject.state(german, "Die Katze schläft auf dem neuen Sofa.")
    await subject.state(french, "Les chats dorment sur le canapé de ma voisine.")
    await subject.state(english, "The cats were sleeping on the sofa of my neighbour.")
    answer = await subject.ask([german, french, english], text="Katzen chat cat", limit=3)
    assert len(answer.hits) == 3


async def test_an_english_text_is_found_by_its_forms_whatever_its_memory_holds(subject: Subject):
    memory = subject.memory()
    await subject.state(memory, "Die Katze schläft auf dem neuen Sofa.")
    await subject.state(memory, "Acme renews its contracts in March and keeps the discount.")
    assert len((await subject.ask(memory, text="renewing contract")).hits) == 1
    assert len((await subject.ask(memory, text="die")).hits) == 1


async def test_a_question_is_in_the_languages_of_the_memories_asked_and_no_other(
    subject: Subject, database: Database
):
    memory, other = subject.memory(), subject.memory()
    await subject.state(memory, "Die Katze schläft auf dem neuen Sofa.")
    await subject.state(other, "The hub blinks amber because it cannot join the network.")
    async with database.read() as tx:
        assert await languages_of(tx, [memory, other]) == ["english", "german"]
        assert await languages_of(tx, [other]) == ["english"]


async def test_two_forms_of_one_word_are_one_word_of_a_question(database: Database):
    async with database.read() as tx:
        asked = await lexed(tx, "Katze und Katzen, das Haus", ["english", "german"])
        assert [sorted(one) for one in asked] == [["katz", "katzen"], ["haus"]]
        assert await lexed(tx, "the and und", ["english", "german"]) == []
        assert await lexed(tx, "", ["english"]) == []


async def test_a_purged_memory_holds_no_language(subject: Subject, database: Database):
    memory = subject.memory()
    await subject.state(memory, "Die Katze schläft auf dem neuen Sofa.")
    await subject.adapter.purge(memory)
    async with database.read() as tx:
        assert await languages_of(tx, [memory]) == ["english"]


async def test_a_language_that_is_set_is_that_of_every_text(bench: Bench):
    subject = bench.native(options=Options(language="german"))
    memory = subject.memory()
    await subject.state(memory, "Katze")
    assert found(await subject.ask(memory, text="Katzen")) == ["Katze"]
