"""What a mistyped word may have meant."""

import difflib
from collections.abc import Iterable


def nearest(
    word: str, known: Iterable[str], n: int = 3, likeness: float = 0.4
) -> list[str]:
    """The closest known words, case aside."""
    lower = {k.lower(): k for k in known}
    found = difflib.get_close_matches(word.lower(), lower, n=n, cutoff=likeness)
    return [lower[f] for f in found]


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """The end of an error line: the closest known word, or nothing."""
    # a short word that differs in a letter is another one, no slip: sac is not cac
    likeness = 0.7 if len(word) < 5 else 0.55
    close = nearest(word, known, n=1, likeness=likeness)
    return f"; did you mean {close[0]}?" if close else ""
