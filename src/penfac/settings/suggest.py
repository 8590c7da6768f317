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
    # less alike is another word, not a slip: sac is not cac
    close = nearest(word, known, n=1, likeness=0.7)
    return f"; did you mean {close[0]}?" if close else ""
