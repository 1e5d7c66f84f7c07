"""The evaluation of recall, through the product's own API (docs/evaluation.md)."""
