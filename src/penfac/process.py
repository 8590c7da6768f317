"""This process and the people around it: Ctrl-C, and standard streams that may be gone."""

import contextlib
import errno
import io
import os
import signal
import sys
import threading
from collections.abc import Iterator
from typing import NoReturn, TextIO

GONE = (errno.EPIPE, errno.EIO, errno.EBADF)  # nobody reads: a pipe, a terminal, none


class CtrlC(KeyboardInterrupt):
    """A person's Ctrl-C; a plain KeyboardInterrupt may come from an environment."""


@contextlib.contextmanager
def recognise_ctrl_c() -> Iterator[None]:
    """Let Ctrl-C raise CtrlC where it would raise KeyboardInterrupt."""
    plain = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if not plain or threading.current_thread() is not threading.main_thread():
        yield
        return
    signal.signal(signal.SIGINT, raise_ctrl_c)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def raise_ctrl_c(number: int, frame: object) -> NoReturn:
    raise CtrlC


def is_ctrl_c(error: BaseException) -> bool:
    """Whether a person interrupted; in doubt it was a person."""
    plain = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    main = threading.current_thread() is threading.main_thread()
    return isinstance(error, KeyboardInterrupt if plain and main else CtrlC)


# --- standard streams ----------------------------------------------------------------------


class Stream(io.FileIO):
    """Standard output that goes nowhere once nobody reads it."""

    def write(self, data) -> int | None:
        try:
            return super().write(data)
        except OSError as error:
            if error.errno not in GONE:
                raise
            return len(data)


def keep_streams() -> None:
    """Let no closed or broken standard stream end a command.

    A number that is closed would be given to the next file that is opened, which then
    receives what an environment prints.
    """
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            # the lowest free number is this one
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
    sys.stdin = sys.stdin or open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stdout = kept(sys.stdout, sys.__stdout__, 1)
    sys.stderr = kept(sys.stderr, sys.__stderr__, 2)


def kept(stream: TextIO | None, first: TextIO | None, number: int) -> TextIO:
    """The stream as it is if a program replaced it, else one that cannot break."""
    if stream is not None and stream is not first:
        return stream
    raw = Stream(number, "w", closefd=False)
    return io.TextIOWrapper(
        io.BufferedWriter(raw),
        encoding=getattr(stream, "encoding", "utf-8"),
        errors=getattr(stream, "errors", "backslashreplace"),
        line_buffering=number == 2 or raw.isatty(),
        write_through=number == 2,
    )


def close_stdout() -> None:
    """Write what is left; what environments print from now on goes to standard error."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(
            os.open(os.devnull, os.O_WRONLY), 1
        )  # nor may the interpreter fail on it
        raise
    if isinstance(getattr(getattr(sys.stdout, "buffer", None), "raw", None), Stream):
        os.dup2(2, 1)
