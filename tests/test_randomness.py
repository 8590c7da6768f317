"""Seeds named by who asks for what."""

from itertools import product

import numpy as np

from penfac.randomness import Stream, env_seed, generator


def test_streams_keep_their_numbers():
    """A renumbered stream would change every run that was ever recorded."""
    numbers = {s.name: int(s) for s in Stream}
    assert numbers == {
        "INIT": 0,
        "TRAIN_RESET": 1,
        "NOISE": 2,
        "EVAL_RESET": 3,
        "EVAL_NOISE": 4,
        "PLAY_RESET": 5,
        "PLAY_NOISE": 6,
        "LEARN": 7,
    }


def test_a_seed_is_a_function_of_its_name():
    """The same name gives the same seed and stream, in any order of asking."""
    names = list(product((0, 7), Stream, range(3)))
    forward = {n: env_seed(*n) for n in names}
    backward = {n: env_seed(*n) for n in reversed(names)}
    assert forward == backward
    for name in names[:5]:
        assert (
            generator(*name).random(4).tolist() == generator(*name).random(4).tolist()
        )


def test_gymnasium_accepts_every_seed():
    """Seeds fit a signed 32-bit integer, for the largest counters and run seeds too."""
    for seed, counter in product((0, 2**32 - 1), (0, 2**31, 2**40)):
        found = env_seed(seed, Stream.TRAIN_RESET, counter)
        assert type(found) is int
        assert 0 <= found < 2**31


def test_names_that_differ_give_seeds_that_differ():
    """Run seed, stream and counters all count: 2 x 7 x 500 seeds meet no more often than
    chance allows (7000 of 2**31: 0.01 pairs expected)."""
    names = list(product((0, 1), Stream, range(500)))
    assert len({env_seed(*n) for n in names}) >= len(names) - 1


def test_counters_do_not_run_into_each_other():
    """(evaluation 1, episode 0) is not (evaluation 0, episode 1), nor is any other pair;
    a counter of more than 32 bits is not its lower half."""
    pairs = list(product(range(30), range(30)))
    assert len({env_seed(0, Stream.EVAL_RESET, *p) for p in pairs}) == len(pairs)
    low, high = 5, 5 + 2**32
    assert env_seed(0, Stream.NOISE, low) != env_seed(0, Stream.NOISE, high)


def test_streams_are_independent():
    """Generators of neighbouring names are uncorrelated: |r| < 4 / sqrt(N)."""
    n = 10_000
    base = generator(3, Stream.NOISE, 8).random(n)
    for name in ((4, Stream.NOISE, 8), (3, Stream.PLAY_NOISE, 8), (3, Stream.NOISE, 9)):
        correlation = np.corrcoef(base, generator(*name).random(n))[0, 1]
        assert abs(correlation) < 4 / np.sqrt(n)
