"""Every way a command can fail: a line for people, an exit code for scripts."""

import re

# what a terminal obeys, and what turns the order of letters around
COMMANDING = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]"
)

LONGEST = 1000  # characters of an error line


def printable(text: str) -> str:
    """Text from anywhere, for people: a control character is shown as its number."""
    return COMMANDING.sub(lambda found: ascii(found[0])[1:-1], text)


def one_line(text: str) -> str:
    """An error line; of a very long one its ends, which say what and what to do."""
    line = printable(" ".join(text.split()))
    return line if len(line) <= LONGEST else f"{line[:700]} ... {line[-250:]}"


class PenfacError(Exception):
    """A failure with a message for people and an exit code for programs."""

    exit_code = 1


class ConfigError(PenfacError):
    """A wrong command or setting: usage, value, action space, missing package."""

    exit_code = 2


class EnvironmentFault(PenfacError):
    """The environment raised, hung, or returned what it must not."""

    exit_code = 3

    def __init__(self, message: str, where: dict | None = None):
        super().__init__(message)
        self.where = where or {}


class Divergence(PenfacError):
    """A number became non-finite in an update."""

    exit_code = 4


class CorruptFile(PenfacError):
    """A file is damaged, unsafe, or in a format that this version cannot read."""

    exit_code = 5


class RunFolderBusy(PenfacError):
    """Another process uses the run folder, or the folder already exists."""

    exit_code = 6


class StorageError(PenfacError):
    """The disk is full, read-only, or refuses access."""

    exit_code = 7


class OutOfMemory(PenfacError):
    """The memory of the host or the device is too small."""

    exit_code = 8
