"""What provider_workers may be told."""

from pydantic import Field

from service_kit.settings import EmbeddingSettings, ObjectSettings


class Settings(EmbeddingSettings, ObjectSettings):
    """Settings of provider_workers."""

    native_derivation: bool = Field(
        default=True, description="Whether the native provider derives facts from the episodes it is given."
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
    native_prime_tokens: int = Field(
        default=1200, ge=0, description="Tokens, estimated, that priming places for one memory at most."
    )
    native_abstain_below: float = Field(
        default=0.34,
        ge=0,
        le=1,
        description="Evidence (half cosine, half the share of a question's words, by rarity) below which a"
        " recall abstains. Calibrated for the embedded encoder, in memories of up to some hundred records; set it"
        " anew for another model.",
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
