"""Every way a command can fail: a line for people, an exit code for scripts."""


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
