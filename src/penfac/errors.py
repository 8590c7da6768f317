"""Every way a command can fail: one line for the user, one exit code for a script."""


class PenfacError(Exception):
    """A failure with a message for people; `exit_code` is for programs."""

    exit_code = 1


class ConfigError(PenfacError):
    """The user asked for something that cannot be: usage, config, space, missing extra."""

    exit_code = 2


class EnvironmentFault(PenfacError):
    """The environment raised, hung, or broke its contract."""

    exit_code = 3

    def __init__(self, message: str, where: dict | None = None):
        super().__init__(message)
        self.where = where or {}


class Divergence(PenfacError):
    """A number became non-finite in an update."""

    exit_code = 4


class CorruptFile(PenfacError):
    """A file is damaged, unsafe, or of a version we do not read."""

    exit_code = 5


class RunFolderBusy(PenfacError):
    """Another process holds the run folder, or it is already there."""

    exit_code = 6


class StorageError(PenfacError):
    """The disk is full, read-only, or refuses."""

    exit_code = 7


class OutOfMemory(PenfacError):
    """Host or device memory did not suffice."""

    exit_code = 8
