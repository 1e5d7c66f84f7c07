"""A study's report as a Markdown table."""

from typing import Any, Final

__all__ = ["markdown"]

_HEADS: Final = {
    "r5": "R@5",
    "r10": "R@10",
    "r50": "R@50",
    "session_hit1": "session Hit@1",
    "session_ndcg5": "session NDCG@5",
}


def markdown(report: dict[str, Any]) -> str:
    """What was found, how abstaining did and what it cost."""
    return "\n".join(
        [
            _about(report),
            "",
            "[95 % interval by question] (least and most of a conversation)",
            "",
            f"| kind | questions | {' | '.join(_HEADS.values())} |",
            f"|---|---|{'---|' * len(_HEADS)}",
            *(_found(kind, one) for kind, one in report["found"].items()),
            "",
            "Abstained, of answered : of unanswerable questions:",
            "",
            "| cannot be answered | questions | AUROC (conversations) | AUROC pooled | held-out threshold | as shipped |",
            "|---|---|---|---|---|---|",
            *(_abstain(kind, one) for kind, one in report["abstain"].items()),
            "",
            _cost(report["cost"]),
            "",
        ]
    )


def _about(report: dict[str, Any]) -> str:
    without = f" Without {report['without']}." if report.get("without") else ""
    return (
        f"Derivation: {report['derivation']}.{without} {len(report['conversations'])} conversations, "
        f"{report['turns']} turns; ids in the evidence that name no turn: {report['evidence_ids_dropped']}."
    )


def _cost(cost: dict[str, Any]) -> str:
    return (
        f"{cost['questions']} questions one after another: {cost['ms_p50']:.1f} ms p50, {cost['ms_p99']:.1f} ms "
        f"p99; {cost['degraded']} answers degraded, {cost['without_evidence_score']} without a score of the "
        "evidence. No model was asked, so no tokens."
    )


def _found(kind: str, one: dict[str, Any]) -> str:
    return f"| {kind} | {one['questions']} | {' | '.join(_figure(one[metric]) for metric in _HEADS)} |"


def _figure(one: dict[str, Any]) -> str:
    (low, high), (least, most) = one["ci95"], one["conversations"]
    return f"{one['value']:.3f} [{low:.3f}, {high:.3f}] ({least:.3f} to {most:.3f})"


def _abstain(kind: str, one: dict[str, Any]) -> str:
    least, most = one["auroc_conversations"]
    return (
        f"| {kind} | {one['questions']} | {one['auroc_by_conversation']:.3f} ({least:.3f} to {most:.3f}) "
        f"| {one['auroc_pooled']:.3f} | {_rates(one['held_out'])} | {_rates(one['as_shipped'])} |"
    )


def _rates(rates: dict[str, float] | None) -> str:
    if rates is None:
        return "none"
    return f"{rates['answered_abstained']:.3f} : {rates['unanswerable_abstained']:.3f}"
