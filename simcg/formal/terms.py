"""Values as terms of uninterpreted operators: equal terms are equal for every kernel."""

from __future__ import annotations

FIRST_TERM = 1 << 20
"""Terms are integers from here on, so that no row number or length is ever taken for one."""

Part = str | int
NUMBER = {"launch": "scalar", "host": "value", "random": "position", "draw": "number"}
"""What the last argument of an operator is called that takes a number."""
PLAIN = {
    "token": "s{0}[{1}]",
    "old cache": "old cache#{op}[row {1}, position {2}]",
    "old state": "old state#{op}[row {1}]",
    "weight": "tensor#{op}",
    "fresh state": "fresh state",
    "poison": "poison",
    "foreign": "a new owner's data",
}
"""How terms that no operator made are shown."""


class Applied(dict[int, int]):
    """The terms of one operator with one argument, made as they are asked for."""

    def __init__(self, terms: Terms, *head: Part) -> None:
        super().__init__()
        self._terms, self._head = terms, head

    def __missing__(self, argument: int) -> int:
        term = self[argument] = self._terms.make(*self._head, argument)
        return term


class Terms:
    """Hash-consed terms: the same operator of the same arguments is the same integer."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[Part, ...], int] = {}
        self._parts: list[tuple[Part, ...]] = []
        self._applied: dict[tuple[Part, ...], Applied] = {}
        self.poison = self.make("poison")
        self.foreign = self.make("foreign")
        """What a new owner of somebody's freed memory has put there."""

    def make(self, *parts: Part) -> int:
        """The term with this operator and these arguments (terms, or plain integers)."""
        number = self._numbers.get(parts)
        if number is None:
            number = self._numbers[parts] = FIRST_TERM + len(self._parts)
            self._parts.append(parts)
        return number

    def copy(self) -> Terms:
        """Terms of their own, in which those made so far have the same numbers."""
        new = Terms()
        new._numbers, new._parts = dict(self._numbers), list(self._parts)
        return new

    def applied(self, *head: Part) -> Applied:
        """``applied(f)[x]`` is ``make(f, x)``, quicker."""
        found = self._applied.get(head)
        if found is None:
            found = self._applied[head] = Applied(self, *head)
        return found

    def parts(self, value: int) -> tuple[Part, ...]:
        """The operator and its arguments; nothing for a plain integer."""
        return () if value < FIRST_TERM else self._parts[value - FIRST_TERM]

    def holds(self, term: int, part: int) -> bool:
        """Whether ``part`` occurs in ``term``."""
        seen, todo = set[int](), [term]
        while todo:
            one = todo.pop()
            if one == part:
                return True
            if one >= FIRST_TERM and one not in seen:
                seen.add(one)
                todo += [p for p in self._parts[one - FIRST_TERM] if isinstance(p, int)]
        return False

    def show(self, value: int) -> str:
        """The term as a person reads it (see ``words``); deep ones are cut short."""
        return str(value) if value < FIRST_TERM else self._show(value, 3)

    def _show(self, value: int, depth: int) -> str:
        if value < FIRST_TERM:  # the host fills rows of padding with zeros
            return str(value) if value else "padding"
        name, *parts = self._parts[value - FIRST_TERM]
        numbers = [part for part in parts if isinstance(part, int)]
        if name in PLAIN:
            return PLAIN[str(name)].format(*numbers, op=sum(numbers[:1]) + 1)
        if not numbers:
            return str(name)
        op, *arguments = numbers
        if not depth:
            return f"{name}#{op + 1}(...)"
        shown = [self._show(argument, depth - 1) for argument in arguments]
        if name in NUMBER:
            shown[-1] = f"{NUMBER[str(name)]} {arguments[-1]}"
        return f"{name}#{op + 1}({', '.join(shown)})"

    def __len__(self) -> int:
        return len(self._parts)
