from math import erf

import msgspec
import numpy as np
import pytest
from numpy.typing import NDArray

from provider_workers.adapters.native.embedding.encoder import open_session
from provider_workers.adapters.native.embedding.graph import BertShape, UnsupportedModelError, build_encoder

_Floats = NDArray[np.float32]
_SHAPE = BertShape(
    model_type="bert",
    num_hidden_layers=2,
    hidden_size=32,
    num_attention_heads=4,
    layer_norm_eps=1e-12,
    hidden_act="gelu",
)
_TOKENS = [1, 7, 7, 3, 42, 2]


@pytest.fixture(scope="module")
def weights() -> dict[str, _Floats]:
    """A small BERT with random weights, under upstream's names."""
    rng = np.random.default_rng(7)

    def normal(*shape: int) -> _Floats:
        return rng.normal(0, 0.3, shape).astype(np.float32)

    made = {
        "embeddings.word_embeddings.weight": normal(50, 32),
        "embeddings.position_embeddings.weight": normal(16, 32),
        "embeddings.token_type_embeddings.weight": normal(2, 32),
    }
    dense = {
        "attention.self.query": (32, 32),
        "attention.self.key": (32, 32),
        "attention.self.value": (32, 32),
        "attention.output.dense": (32, 32),
        "intermediate.dense": (64, 32),
        "output.dense": (32, 64),
    }
    norms = ["embeddings.LayerNorm"]
    for layer in range(2):
        at = f"encoder.layer.{layer}."
        norms += [f"{at}attention.output.LayerNorm", f"{at}output.LayerNorm"]
        for name, shape in dense.items():
            made[f"{at}{name}.weight"] = normal(*shape)
            made[f"{at}{name}.bias"] = normal(shape[0])
    for name in norms:
        made[f"{name}.weight"] = 1 + normal(32)
        made[f"{name}.bias"] = normal(32)
    return made


def _reference(weights: dict[str, _Floats], tokens: list[int]) -> _Floats:
    """BERT as its paper computes it, in plain numpy: mean over tokens, L2 normalised."""

    def linear(name: str, x: _Floats) -> _Floats:
        return x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]

    def norm(name: str, x: _Floats) -> _Floats:
        centred = x - x.mean(-1, keepdims=True)
        scaled = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + _SHAPE.layer_norm_eps)
        return (scaled * weights[f"{name}.weight"] + weights[f"{name}.bias"]).astype(np.float32)

    def heads(x: _Floats) -> _Floats:
        return x.reshape(len(tokens), 4, 8).transpose(1, 0, 2)

    def gelu(x: _Floats) -> _Floats:
        phi = np.array([1 + erf(float(v) / 2**0.5) for v in x.flat], np.float32).reshape(x.shape)
        return (x * phi / 2).astype(np.float32)

    x = weights["embeddings.word_embeddings.weight"][tokens]
    x = x + weights["embeddings.position_embeddings.weight"][: len(tokens)]
    x = norm("embeddings.LayerNorm", x + weights["embeddings.token_type_embeddings.weight"][0])
    for layer in range(2):
        at = f"encoder.layer.{layer}."
        q, k, v = (heads(linear(f"{at}attention.self.{kind}", x)) for kind in ("query", "key", "value"))
        scores = np.exp(q @ k.transpose(0, 2, 1) / 8**0.5)
        mixed = (scores / scores.sum(-1, keepdims=True)) @ v
        joined = mixed.transpose(1, 0, 2).reshape(len(tokens), 32)
        x = norm(f"{at}attention.output.LayerNorm", x + linear(f"{at}attention.output.dense", joined))
        x = norm(
            f"{at}output.LayerNorm",
            x + linear(f"{at}output.dense", gelu(linear(f"{at}intermediate.dense", x))),
        )
    mean = x.mean(0)
    return (mean / np.linalg.norm(mean)).astype(np.float32)


def test_the_graph_computes_what_bert_is_in_print(weights: dict[str, _Floats]) -> None:
    session = open_session(build_encoder(_SHAPE, weights))
    answer = session.run(None, {"input_ids": np.array([_TOKENS], np.int64)})
    assert answer[0].shape == (1, 32)
    assert float(answer[0][0] @ _reference(weights, _TOKENS)) > 0.99


def test_a_missing_tensor_is_named(weights: dict[str, _Floats]) -> None:
    some = {name: value for name, value in weights.items() if name != "encoder.layer.1.output.dense.bias"}
    with pytest.raises(UnsupportedModelError, match=r"encoder\.layer\.1\.output\.dense\.bias"):
        build_encoder(_SHAPE, some)


@pytest.mark.parametrize(
    "other", [{"model_type": "mpnet"}, {"hidden_act": "relu"}, {"position_embedding_type": "relative_key"}]
)
def test_another_kind_of_network_is_refused(weights: dict[str, _Floats], other: dict[str, str]) -> None:
    with pytest.raises(UnsupportedModelError):
        build_encoder(msgspec.structs.replace(_SHAPE, **other), weights)
