"""What provider_workers may be told."""

from typing import Literal

from pydantic import Field, field_validator

from provider_workers.adapters.native.generations import GIVEN_UP_S
from provider_workers.adapters.native.languages import DETECT, Setting
from provider_workers.adapters.native.ranking import SIGNALS
from service_kit.settings import DerivationSettings, EmbeddingSettings, ObjectSettings


class Settings(EmbeddingSettings, DerivationSettings, ObjectSettings):
    """Settings of provider_workers."""

    native_derivation: Literal["none", "rules", "model"] = Field(
        default="rules",
        description="How the native provider derives facts from episodes: `rules` keeps the sentences that state"
        " something, as they were said; `model` asks the model at `GROVE_DERIVATION_BASE_URL`; `none` keeps the"
        " episodes alone.",
    )
    native_derivation_tokens_per_day: int = Field(
        default=200_000,
        ge=0,
        description="Tokens, read and written, that deriving with a model may take for one memory on one UTC day; what"
        " is left waits for the next. 0: no limit.",
    )
    native_language: Setting = Field(
        default=DETECT,
        description="Whose rules for the forms of words a text is indexed by, beside those of English: `detect`"
        " guesses the language of each text, which takes 80 MB; or one language for all.",
    )
    native_embed_timeout_s: float = Field(
        default=3.0,
        gt=0,
        le=8,
        description="Longest wait for a record's or a question's vector; later it is found by its words alone.",
    )
    native_embed_threads: int = Field(
        default=1, ge=1, le=64, description="Threads of the embedded sentence encoder."
    )
    native_sweep_s: float = Field(
        default=30.0, gt=0, description="How often records still without a vector are looked for."
    )
    native_model_given_up_s: float = Field(
        default=GIVEN_UP_S,
        ge=60,
        description="Where workers have different embedding models: how long none has to have a newer one until those"
        " of an older one make the vectors again.",
    )
    native_prime_tokens: int = Field(
        default=1200, ge=0, description="Tokens, estimated, that priming places for one memory at most."
    )
    native_abstain_below: float = Field(
        default=0.15,
        ge=0,
        le=1,
        description="Evidence, of a calibrated model, below which a recall abstains. Calibrated for the embedded"
        " encoder; set it anew for another model.",
    )
    native_without_signals: str = Field(
        default="",
        description="Signals left out of the ranking of a recall, separated by commas, to measure what each is worth:"
        " `words`, `meaning` (not both), `neighbours`, `session`, `subject`, `time`, `keys`.",
    )
    native_keep_jobs_days: int = Field(
        default=30, ge=1, description="How long a finished observe job can be read."
    )
    native_extract_max_bytes: int = Field(
        default=8 * 1024 * 1024,
        ge=0,
        le=64 * 1024 * 1024,
        description="Largest PDF, DOCX or HTML file that words are looked for in; 0: in none.",
    )
    native_extract_timeout_s: float = Field(
        default=5.0,
        gt=0,
        le=20,
        description="How long that may take for one file; later it is kept without words.",
    )
    native_keep_keys_hours: int = Field(
        default=48, ge=24, description="How long the answer of an Idempotency-Key is kept."
    )
    native_consolidate_similarity: float = Field(
        default=0.9,
        ge=0.5,
        le=1,
        description="Cosine from which two derived facts that say the same word for word, but for articles and fillers,"
        " are merged by a consolidation run.",
    )
    native_consolidate_seconds: int = Field(
        default=600, ge=1, le=86_400, description="Budget of a consolidation run that was given none."
    )
    native_consolidate_summary_episodes: int = Field(
        default=20,
        ge=0,
        description="Episodes from which a consolidation run sums up a session or a day in a note; 0: never.",
    )
    native_consolidate_every_h: float = Field(
        default=0.0,
        ge=0,
        description="Consolidate a memory so many hours after something new was written there; 0: not by schedule.",
    )
    native_consolidate_idle_min: float = Field(
        default=0.0,
        ge=0,
        description="Consolidate a memory that nobody has written to for so many minutes; 0: not when idle.",
    )
    native_consolidate_idle_episodes: int = Field(
        default=50, ge=1, description="New episodes that an idle memory must have for it."
    )
    native_consolidate_at_once: int = Field(
        default=2,
        ge=1,
        le=64,
        description="Consolidation runs that work at a time, of all processes together.",
    )
    query_timeout_s: float = Field(
        default=2.0, gt=0, le=5, description="Longest time a query may run; what it has by then is answered."
    )
    query_rows: int = Field(default=1_000, ge=1, description="Rows a query answers at most.")
    query_bytes: int = Field(
        default=1024 * 1024, ge=1024, description="Bytes of JSON a query's rows have at most."
    )
    query_read_rows: int = Field(
        default=20_000, ge=1, description="Records, and versions, of a memory that a query sees; the newest."
    )
    query_read_bytes: int = Field(
        default=32 * 1024 * 1024, ge=1024, description="Bytes of those records, and of those versions."
    )
    query_heap_bytes: int = Field(
        default=64 * 1024 * 1024, ge=1024 * 1024, description="Memory a query may use beyond what it sees."
    )
    query_concurrency: int = Field(
        default=4,
        ge=1,
        le=64,
        description="Queries one process runs at a time, half of them of one principal at most.",
    )

    @field_validator("native_without_signals")
    @classmethod
    def _are_signals(cls, value: str) -> str:
        without = named(value)
        if not without <= {*SIGNALS} or {"words", "meaning"} <= without:
            raise ValueError(f"name some of {', '.join(SIGNALS)}, and not both words and meaning")
        return value


def named(listed: str) -> frozenset[str]:
    """The names in a list separated by commas."""
    return frozenset(one.strip() for one in listed.split(",") if one.strip())
