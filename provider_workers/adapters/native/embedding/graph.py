"""Published BERT weights in, an int8 ONNX sentence encoder out, with no deep learning framework.

The graph takes ``input_ids`` (int64, shape ``[1, S]``, ``S`` up to the model's positions) and answers
``sentence_embedding`` (float32, shape ``[1, H]``): the mean of the last layer over all tokens, L2
normalised, as sentence-transformers does it for this family.

One text per run, on purpose. Activations are quantised with one scale per tensor, so in a batch the
vector of a text would depend on its neighbours (cosines down to 0.97 were seen); alone it depends on
the text only and needs neither padding nor mask. It costs a sixth of one thread's throughput.
"""

from collections.abc import Mapping
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

__all__ = ["BertShape", "UnsupportedModelError", "build_encoder"]

_CONTRIB: Final = "com.microsoft"  # onnxruntime's fused operators; its CPU provider has them all
_OPSET: Final = 17
_IR_VERSION: Final = 9
# Weights keep 7 bits: a CPU without VNNI adds two u8 x s8 products in 16 bits, where 8 bits saturate.
_WEIGHT_LIMIT: Final = 63
_TABLE_LIMIT: Final = 127


class UnsupportedModelError(Exception):
    """The weights are not of a kind this builder knows."""


class BertShape(msgspec.Struct, frozen=True):
    """What the upstream ``config.json`` says about the network."""

    model_type: str
    num_hidden_layers: int
    hidden_size: int
    num_attention_heads: int
    layer_norm_eps: float
    hidden_act: str
    position_embedding_type: str = "absolute"

    def check(self) -> None:
        """Raise :class:`UnsupportedModelError` for anything but the BERT this graph computes."""
        if (self.model_type, self.hidden_act, self.position_embedding_type) != ("bert", "gelu", "absolute"):
            raise UnsupportedModelError("only BERT with GELU and absolute positions can be built")


def build_encoder(shape: BertShape, weights: Mapping[str, NDArray[np.float32]]) -> bytes:
    """The serialised ONNX model. ``weights`` are upstream's tensors under upstream's names.

    Raises :class:`UnsupportedModelError` for another kind of network or a missing tensor.
    """
    shape.check()
    return _Encoder(shape, weights).model().SerializeToString()


class _Encoder:
    """Collects nodes and initialisers of one graph."""

    def __init__(self, shape: BertShape, weights: Mapping[str, NDArray[np.float32]]) -> None:
        self._shape = shape
        self._weights = weights
        self._nodes: list[NodeProto] = []
        self._tensors: list[TensorProto] = []

    def model(self) -> ModelProto:
        """The whole graph."""
        hidden = self._embeddings()
        for layer in range(self._shape.num_hidden_layers):
            hidden = self._layer(f"encoder.layer.{layer}.", hidden)
        mean = self._node("ReduceMean", [hidden], "mean", axes=[1], keepdims=0)
        self._node("LpNormalization", [mean], "sentence_embedding", axis=-1, p=2)
        graph = helper.make_graph(
            self._nodes,
            "sentence-encoder",
            [helper.make_tensor_value_info("input_ids", TensorProto.INT64, [1, "S"])],
            [
                helper.make_tensor_value_info(
                    "sentence_embedding", TensorProto.FLOAT, [1, self._shape.hidden_size]
                )
            ],
            self._tensors,
        )
        model = helper.make_model(
            graph,
            opset_imports=[helper.make_opsetid("", _OPSET), helper.make_opsetid(_CONTRIB, 1)],
            producer_name="grovekeeper",
        )
        model.ir_version = _IR_VERSION
        return model

    def _embeddings(self) -> str:
        """Word, position and (constant) token type vectors, normalised. Answers the output's name."""
        positions = (
            self._weight("embeddings.position_embeddings.weight")
            + self._weight("embeddings.token_type_embeddings.weight")[0]
        )
        zero, one, two = (self._tensor(f"i{n}", np.array([n], np.int64)) for n in range(3))
        size = self._node("Shape", ["input_ids"], "size")
        length = self._node("Slice", [size, one, two, zero], "length")
        at = self._node("Slice", [self._tensor("positions", positions), zero, length, zero], "at")
        summed = self._node("Add", [self._word_vectors(), at], "embedded")
        return self._node(
            "LayerNormalization",
            [summed, *self._pair("embeddings.LayerNorm")],
            "hidden",
            axis=-1,
            epsilon=self._shape.layer_norm_eps,
        )

    def _word_vectors(self) -> str:
        """The word table as int8 with a scale per row: half the file is this table."""
        table = self._weight("embeddings.word_embeddings.weight")
        scale = _scale(table, axis=1, limit=_TABLE_LIMIT)
        packed = self._tensor("words", _packed(table, scale))
        picked = self._node("Gather", [packed, "input_ids"], "words_int8", axis=0)
        scales = self._node(
            "Gather", [self._tensor("word_scales", scale), "input_ids"], "words_scale", axis=0
        )
        floats = self._node("Cast", [picked], "words_float", to=TensorProto.FLOAT)
        return self._node("Mul", [floats, scales], "words_vector")

    def _layer(self, at: str, hidden: str) -> str:
        """One transformer block. Answers the name of its output."""
        projected = [self._linear(f"{at}attention.self.{kind}", hidden) for kind in ("query", "key", "value")]
        heads = self._node(
            "MultiHeadAttention",
            projected,
            f"{at}heads",
            domain=_CONTRIB,
            num_heads=self._shape.num_attention_heads,
        )
        mixed = self._linear(f"{at}attention.output.dense", heads)
        attended = self._add_and_normalise(mixed, hidden, f"{at}attention.output.LayerNorm")
        wide = self._linear(f"{at}intermediate.dense", attended)
        active = self._node("Gelu", [wide], f"{at}active", domain=_CONTRIB)
        narrow = self._linear(f"{at}output.dense", active)
        return self._add_and_normalise(narrow, attended, f"{at}output.LayerNorm")

    def _linear(self, name: str, hidden: str) -> str:
        """One of upstream's dense layers: int8 weights with a scale per output column."""
        weight = self._weight(f"{name}.weight").T
        scale = _scale(weight, axis=0, limit=_WEIGHT_LIMIT)
        return self._node(
            "DynamicQuantizeMatMul",
            [
                hidden,
                self._tensor(f"{name}.weight", _packed(weight, scale)),
                self._tensor(f"{name}.scale", scale[0]),
                self._tensor(f"{name}.zero", np.zeros_like(scale[0], dtype=np.int8)),
                self._tensor(f"{name}.bias", self._weight(f"{name}.bias")),
            ],
            f"{name}.out",
            domain=_CONTRIB,
        )

    def _add_and_normalise(self, change: str, hidden: str, norm: str) -> str:
        return self._node(
            "SkipLayerNormalization",
            [change, hidden, *self._pair(norm)],
            f"{norm}.out",
            domain=_CONTRIB,
            epsilon=self._shape.layer_norm_eps,
        )

    def _pair(self, name: str) -> list[str]:
        """Gain and bias of a layer norm."""
        return [self._tensor(f"{name}.{part}", self._weight(f"{name}.{part}")) for part in ("weight", "bias")]

    def _weight(self, name: str) -> NDArray[np.float32]:
        try:
            return self._weights[name]
        except KeyError:
            raise UnsupportedModelError(f"the weights hold no {name}") from None

    def _tensor(self, name: str, value: NDArray[np.generic]) -> str:
        self._tensors.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def _node(
        self, op: str, inputs: list[str], output: str, domain: str = "", **attributes: float | list[int]
    ) -> str:
        node = helper.make_node(op, inputs, [output], domain=domain)
        node.attribute.extend(helper.make_attribute(name, value) for name, value in attributes.items())
        self._nodes.append(node)
        return output


def _scale(weight: NDArray[np.float32], axis: int, limit: int) -> NDArray[np.float32]:
    """What one step of the packed integers is worth, per row or column; never zero."""
    widest = np.abs(weight).max(axis=axis, keepdims=True)
    return np.maximum(widest / limit, np.finfo(np.float32).tiny).astype(np.float32)


def _packed(weight: NDArray[np.float32], scale: NDArray[np.float32]) -> NDArray[np.int8]:
    """The nearest whole number of steps."""
    return (weight / scale).round().astype(np.int8)
