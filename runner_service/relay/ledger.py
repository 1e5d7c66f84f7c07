"""What one turn's calls came to: the sum of what was counted, and what went wrong last."""

from dataclasses import dataclass, replace
from typing import Final

from runner_service.domain.model import Budgets, Failure, ModelCalls, Usage
from runner_service.relay.reading import Reading

__all__ = ["Called", "Ledger"]

_MANY: Final = 32
"""Models of a turn whose failures are told apart."""


@dataclass(slots=True)
class Called:
    """What became of one call. ``status`` 0: no answer came; ``asked``: the endpoint may have got it; ``whole``: its answer
    came to an end.
    """

    status: int = 0
    asked: bool = True
    whole: bool = False
    reading: Reading | None = None
    failure: Failure | None = None

    @property
    def usage(self) -> Usage | None:
        """What it cost; None where nobody said."""
        return None if self.reading is None else self.reading.usage()

    @property
    def costs(self) -> bool:
        """Whether it may have cost anything: what is refused does not."""
        return self.asked and self.status < 300

    @property
    def limited(self) -> bool:
        """Whether a rate limit refused it."""
        return self.status == 429


class Ledger:
    """Kept for one turn. A call is known by its API and model: what succeeds again has not failed."""

    def __init__(self) -> None:
        self._usage: Usage = Usage(0, 0)
        self._counted: int = 0
        self._uncounted: int = 0
        self._calls: ModelCalls = ModelCalls()
        self._failures: dict[tuple[str, str], Failure] = {}
        self._budgets: Budgets = Budgets()
        self._stopped: str = ""

    def usage(self) -> Usage | None:
        return self._usage if self._counted and not self._uncounted else None

    def failure(self) -> Failure | None:
        return next(reversed(self._failures.values()), None)

    def calls(self) -> ModelCalls:
        return self._calls

    def limit(self, budgets: Budgets) -> None:
        self._budgets = budgets

    def stopped(self) -> str:
        return self._stopped

    def spent(self) -> str:
        """The budget that forbids another call, which is remembered as refused; empty when there is none."""
        most = self._budgets
        if most.max_output_tokens and self._usage.output_tokens >= most.max_output_tokens:
            self._stopped = "max_output_tokens"
        elif most.max_step and self._calls.made >= most.max_step:
            self._stopped = "max_step"
        return self._stopped

    def begun(self, call: tuple[str, str]) -> None:
        """A call is made."""
        again = call in self._failures
        self._calls = replace(
            self._calls, made=self._calls.made + 1, retried=self._calls.retried + (1 if again else 0)
        )

    def ended(self, call: tuple[str, str], called: Called) -> None:
        """A call is over, whatever ended it."""
        usage = called.usage
        if called.failure is not None:
            self._fail(call, called.failure, limited=called.limited)
        elif called.whole or usage is not None:
            self._failures.pop(call, None)
        if called.costs:
            self._count(usage)

    def _fail(self, call: tuple[str, str], failure: Failure, *, limited: bool) -> None:
        self._calls = replace(
            self._calls,
            failed=self._calls.failed + 1,
            rate_limited=self._calls.rate_limited + (1 if limited else 0),
        )
        self._failures.pop(call, None)
        self._failures[call] = failure
        if len(self._failures) > _MANY:
            del self._failures[next(iter(self._failures))]

    def _count(self, usage: Usage | None) -> None:
        if usage is None:
            self._uncounted += 1
            return
        self._counted += 1
        self._usage = Usage(
            self._usage.input_tokens + usage.input_tokens, self._usage.output_tokens + usage.output_tokens
        )
