# ruff: noqa: RUF001 - the signs of other scripts are meant

"""Which language a text is taken to be in."""

import pytest

from provider_workers.adapters.native.languages import DETECT, Languages


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("The hub at Mill Street blinks amber because it cannot join the Wi-Fi.", "english"),
        ("Die Katzen schlafen auf dem Sofa.", "german"),
        ("Les chats dorment sur le canapé.", "french"),
        ("El contrato se renueva en marzo.", "spanish"),
        ("Il contratto scade a marzo.", "italian"),
        ("O contrato termina em março.", "portuguese"),
        ("De katten slapen op de bank.", "dutch"),
        ("Договор продлевается в марте.", "russian"),
        ("العقد يتجدد في مارس", "arabic"),
        ("Sözleşme mart ayında yenileniyor.", "turkish"),
        ("我们在三月续约合同", "english"),
        ("Umowa kończy się w marcu.", "english"),
        ("", "english"),
    ],
)
def test_a_sentence_says_its_language_and_one_without_rules_is_english(text: str, language: str):
    assert Languages(DETECT).of(text) == (language,)


@pytest.mark.parametrize("text", ["Katze", "Acme Corp", "ok", "4711", "🎉🎉🎉", "\u200f"])
def test_a_short_text_is_never_certain_to_be_in_another_language(text: str):
    assert "english" in Languages(DETECT).of(text)


def test_a_setting_is_the_language_of_every_text():
    assert Languages("swedish").of("The hub at Mill Street blinks amber.") == ("swedish",)
