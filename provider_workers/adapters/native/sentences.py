"""Facts without a model: the sentences of an episode that state something, as they were said.

Nothing is rephrased, merged or concluded. A sentence is kept when somebody says it first hand and it
reads like a statement; questions, requests, greetings, quotations, code and very short remarks are left
to the episode itself, which stays recallable whole.
"""

# ruff: noqa: RUF001 - the marks of other scripts are meant

import re
from collections.abc import Iterator, Sequence
from typing import Final

from provider_workers.adapters.native import words
from provider_workers.domain.model import Part, Record

__all__ = ["MAX_FACTS", "heard", "split", "spoken", "statements"]

MAX_FACTS: Final = 200
"""Facts derived from one episode at most; the rest stays in the episode."""

_MAX_SENTENCE: Final = 1_000
_MIN_WORDS: Final = 4
_MIN_UNSPACED: Final = 6

_FENCE: Final = re.compile(r"^(```|~~~).*?(?:^\1[^\n]*$|\Z)", re.MULTILINE | re.DOTALL)
_BULLET: Final = re.compile(r"^\s*(?:[-*+•–]|\d{1,3}[.)]|#{1,6})\s+")
_QUOTED: Final = re.compile(r"^\s*(?:>|\|)")
_INDENTED_CODE: Final = re.compile(r"^(?: {4}|\t)\S")
# The end of a sentence: its mark, what closes after it, then a space or an unspaced script's next character.
_END: Final = re.compile(r"(?:[.!?…]+[\"'”’»)\]]*(?=\s|$)|[。！？]+[」』”’）]*)")
_ABBREVIATED: Final = re.compile(
    r"(?:\b(?i:mr|mrs|ms|dr|prof|sr|jr|st|mt|vs|inc|ltd|co|corp|dept|approx|vol|fig|est|gen|rev|hon"
    r"|jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec|e\.g|i\.e|a\.m|p\.m|u\.s|u\.k)"
    r"|(?:^|[\s.(])[A-Z])\.$"
)
_SPEECH_MARKS: Final = "\"'“”‘’«»()[] \t"
_WORD: Final = re.compile(r"[^\W_]+(?:['’.-][^\W_]+)*")
_UNSPACED: Final = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]")
_GREETING: Final = re.compile(
    r"^(?:hi|hello|hey|dear|good (?:morning|afternoon|evening|night|day)|morning|afternoon|evening|thanks?|thank you"
    r"|many thanks|cheers|bye|goodbye|see you|talk soon|best regards|kind regards|regards|sincerely|welcome"
    r"|you(?:'|’)?re welcome|no problem|sorry|ok|okay|sure|great|perfect|awesome|nice|cool|got it|yes|no|yep|nope)\b",
    re.IGNORECASE,
)
_REQUEST: Final = re.compile(
    r"^(?:please|pls|kindly|(?:can|could|would|will) (?:you|we|i|someone|anyone)|let me know|tell me|remind me"
    r"|help me|give me|show me|send me)\b",
    re.IGNORECASE,
)
_MAX_GREETING_WORDS: Final = 7


def heard(episode: Record) -> tuple[str, list[str]]:
    """Who speaks in an episode ("": nobody is named), and the texts said first hand."""
    who = words.speaker(episode.content, episode.attributes)
    # A harness's own answers are its harness's; somebody else's transcript may name who an assistant is.
    named = episode.written_by.kind != "harness" and who not in {"", *words.ROLES}
    return who, list(spoken(episode.content, named=named))


def spoken(parts: Sequence[Part], *, named: bool) -> Iterator[str]:
    """The texts somebody says first hand.

    What a tool or the system says is never derived from, and what an assistant says only when ``named``
    is set, which means that the episode names who speaks: an unnamed assistant may be repeating what it
    recalled, and deriving from that would feed a memory on itself.
    """
    heard = {"", "user", "assistant"} if named else {"", "user"}
    return (part.text for part in parts if part.type == "text" and part.role in heard)


def statements(text: str) -> list[str]:
    """The sentences that state something, in order, each once, at most :data:`MAX_FACTS`."""
    kept = dict[str, None]()
    for sentence in split(text):
        if len(kept) == MAX_FACTS:
            break
        if _states(sentence):
            kept[sentence] = None
    return list(kept)


def split(text: str) -> Iterator[str]:
    """The sentences of a text, verbatim, without code, quotations and list marks."""
    for line in _FENCE.sub("\n", text.replace("\r\n", "\n").replace("\0", "")).split("\n"):
        if _QUOTED.match(line) or _INDENTED_CODE.match(line):
            continue
        yield from _sentences(_BULLET.sub("", line))


def _sentences(line: str) -> Iterator[str]:
    start = 0
    for end in _END.finditer(line):
        piece = line[start : end.end()]
        if end.group() == "." and _ABBREVIATED.search(piece[-8:]):
            continue
        if piece.strip():
            yield piece.strip()
        start = end.end()
    if line[start:].strip():
        yield line[start:].strip()


def _states(sentence: str) -> bool:
    bare = sentence.strip(_SPEECH_MARKS)
    if len(sentence) > _MAX_SENTENCE or bare.rstrip(".!…").endswith(("?", "？", ":")) or "`" in sentence:
        return False
    count = len(_WORD.findall(bare))
    if count < _MIN_WORDS and len(_UNSPACED.findall(bare)) < _MIN_UNSPACED:
        return False
    if _REQUEST.match(bare):
        return False
    return count > _MAX_GREETING_WORDS or not _GREETING.match(bare)
