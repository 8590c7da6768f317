"""The figures of a benchmark."""

from collections.abc import Callable

Say = Callable[[str], None]


class Figures(list[dict[str, str]]):
    """Rows of the report; each is printed as soon as it is measured."""

    def __init__(self, say: Say):
        super().__init__()
        self.say = say

    def add(self, figure: str, measured: str, aim: str = "") -> None:
        self.append({"figure": figure, "measured": measured, "aim": aim})
        self.say(f"{figure}: {measured}" + (f" (aim: {aim})" if aim else ""))
