"""The server's loop: admit what has arrived, choose a step, run it, hand out its tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from real_gpu.backends.capture import gc_paused
from real_gpu.serving.clock import Clock, WallClock
from real_gpu.serving.model import Ran, StepModel
from real_gpu.serving.policy import Choice, Limits, choose
from real_gpu.serving.request import Asked, Session
from simcg.des.serving.policy import Policy
from simcg.errors import require


@dataclass(frozen=True, slots=True)
class ServedStep:
    """One step: its requests by index, with their new and cached tokens, and its times.

    The first ``decodes`` requests decode, the others prefill. ``start_ns``: when it was chosen,
    with all that had arrived by then; ``end_ns``: when its tokens were handed out.
    """

    requests: tuple[int, ...]
    new: tuple[int, ...]
    cached: tuple[int, ...]
    decodes: int
    start_ns: int
    end_ns: int
    ran: Ran


@dataclass(frozen=True, slots=True)
class Served:
    """A run: the steps in order, the requests by index with what they got; those unfinished too."""

    steps: list[ServedStep]
    sessions: list[Session]


class Server:
    """Serves requests on one model, first come first served; it never preempts.

    ``limits.running`` requests at once have a stretch of ``longest`` cache slots each.
    """

    def __init__(self, model: StepModel, policy: Policy, limits: Limits, longest: int) -> None:
        expected = f"at most the chunk of {limits.chunk}, as every step goes on with who has begun"
        require(limits.running <= limits.chunk, "server", "running", limits.running, expected)
        self.model, self.policy, self.limits, self.longest = model, policy, limits, longest

    def serve(
        self, asked: Sequence[Asked], stop_ns: int | None = None, clock: Clock | None = None
    ) -> Served:
        """Serve the requests, in the order of their arrival, until ``stop_ns`` or the last token.

        An idle server wakes up for the next arrival and chooses its step as of that moment, so
        that the run is a function of the arrivals and of the times of its steps. ``clock``: of
        its own, the wall's unless told.
        """
        run = _Run(self, asked)
        with gc_paused():
            return run.all(stop_ns, clock or WallClock())


class _Run:
    """The state of one run."""

    def __init__(self, server: Server, asked: Sequence[Asked]) -> None:
        running, longest = server.limits.running, server.longest
        self._server, self._asked = server, asked
        self._sessions: list[Session] = []
        self._steps: list[ServedStep] = []
        self._places = [1 + place * longest for place in reversed(range(running))]
        self._prefilling: list[Session] = []
        self._decoding: list[Session] = []
        self._arrived = 0

    def all(self, stop_ns: int | None, clock: Clock) -> Served:
        """Step by step."""
        asked, now = self._asked, 0
        while stop_ns is None or now < stop_ns:
            while self._arrived < len(asked) and asked[self._arrived].arrival_ns <= now:
                self._arrived += 1
            choice = self._choose()
            if choice.empty:
                if self._arrived == len(asked):
                    break
                now = asked[self._arrived].arrival_ns
                clock.wait_until(now)
                continue
            now = self._step(choice, now, clock)
        return Served(self._steps, self._sessions)

    def _choose(self) -> Choice:
        """The policy's answer to what waits, as far as there are places, and to what decodes."""
        server, first = self._server, len(self._sessions)
        placed = min(self._arrived, first + len(self._places))
        candidates = self._asked[first:placed]
        left = [session.left for session in self._prefilling]
        left += [len(one.prompt) for one in candidates]
        more = placed < self._arrived
        return choose(server.policy, server.limits.chunk, left, len(self._decoding), more)

    def _step(self, choice: Choice, now: int, clock: Clock) -> int:
        """Run it; returns the time at which its tokens are handed out."""
        decoding = self._decoding[: choice.decodes]
        prefilling = self._prefilled_by(choice)
        parts = [session.next_token() for session in decoding]
        parts += [s.chunk(n) for s, n in zip(prefilling, choice.prefill, strict=True)]
        ran = self._server.model.step(parts, decodes_alone=not prefilling)
        for session, tokens in zip(prefilling, choice.prefill, strict=True):
            session.prefilled += tokens
        every = [*decoding, *prefilling]
        end = clock.now()
        for session, token in zip(every, ran.tokens, strict=True):
            if session.left == 0:
                self._hand_out(session, token, end)
        self._prefilling = [s for s in prefilling if s.left]  # at most the last one
        begins = [s for s in prefilling if not s.left]
        self._decoding = [s for s in (*self._decoding, *begins) if not s.done]
        self._steps.append(
            ServedStep(
                requests=tuple(s.index for s in every),
                new=tuple(len(part.ids) for part in parts),
                cached=tuple(part.cached for part in parts),
                decodes=len(decoding), start_ns=now, end_ns=end, ran=ran,
            )
        )  # fmt: skip
        return end

    def _prefilled_by(self, choice: Choice) -> list[Session]:
        """Those that have begun, then as many more as the policy admits, in order of arrival."""
        begun = self._prefilling[: len(choice.prefill)]
        for _ in range(len(choice.prefill) - len(begun)):
            index = len(self._sessions)
            session = Session(self._asked[index], index, self._places.pop())
            self._sessions.append(session)
            begun.append(session)
        return begun

    def _hand_out(self, session: Session, token: int, now: int) -> None:
        """A token for a request whose whole prompt is computed."""
        session.produced.append(token)
        if len(session.produced) == 1:
            session.first_token_ns = now
        if session.done:
            session.finish_ns = now
            self._places.append(session.start)
