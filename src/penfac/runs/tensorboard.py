"""Scalars and settings for TensorBoard, without a thread of their own.

Events are messages of protobuf, written here by hand: the libraries that know them load
PyTorch if it is there, which takes longer than a small run. `message` takes fields by
their numbers in TensorFlow's event.proto, summary.proto and plugin_hparams.proto.
"""

import socket
import struct
import time
import uuid
from pathlib import Path
from typing import Any

from penfac.runs.storage import no_link

STRING, BOOL, FLOAT64 = 1, 2, 3  # DataType of a setting
START = 1  # SessionLog.status
METRICS = "eval/mean_reward", "eval/mean_ep_length"


class Board:
    """Events for TensorBoard. Written by the thread that trains: a disk that refuses is
    heard at once, where a writing thread of its own would die and its queue fill up."""

    def __init__(self, folder: Path, step: int, hparams: dict[str, Any]):
        folder.mkdir(exist_ok=True)
        stamp = f"{time.time():.0f}.{socket.gethostname()}.{uuid.uuid4().hex}"
        path = folder / f"events.out.tfevents.{stamp}"
        self.file = open(path, "wb", opener=no_link)  # noqa: SIM115
        self._write((2, step), (3, "brain.Event:2"))
        # what an earlier process wrote from this step on does not count
        self._write((2, step), (7, message((1, START))))
        if hparams:
            self._list(hparams)

    def scalars(self, values: dict[str, float], step: int) -> None:
        rows = [(1, message((1, tag), (2, Single(v)))) for tag, v in values.items()]
        self._write((2, step), (5, message(*rows)))
        self.file.flush()

    def _list(self, hparams: dict[str, Any]) -> None:
        """Settings for the table of runs, beside the last judgement of each."""
        kinds = [(4, message((1, k), (4, kind_of(v)))) for k, v in hparams.items()]
        metrics = [(5, message((1, message((2, tag))))) for tag in METRICS]
        values = [(1, message((1, k), (2, value_of(v)))) for k, v in hparams.items()]
        parts = {
            "experiment": (2, message(*kinds, *metrics)),
            "session_start_info": (3, message(*values)),
        }
        for name, part in parts.items():
            plugin = message((1, "hparams"), (2, message(part)))
            value = message((1, f"_hparams_/{name}"), (9, message((1, plugin))))
            self._write((5, message((1, value))))
        self.file.flush()

    def _write(self, *fields: "Field") -> None:
        """One record: its length, the checksum of that, itself, its checksum."""
        data = message((1, time.time()), *fields)
        for part in (struct.pack("<Q", len(data)), data):
            self.file.write(part + struct.pack("<I", masked_checksum(part)))


def kind_of(setting: Any) -> int:
    if isinstance(setting, str):
        return STRING
    return BOOL if isinstance(setting, bool) else FLOAT64


def value_of(setting: Any) -> bytes:
    """A setting as a google.protobuf.Value."""
    if isinstance(setting, str):
        return message((3, setting))
    if isinstance(setting, bool):
        return message((4, setting))
    return message((2, float(setting)))


# --- protobuf and its container ------------------------------------------------------------


class Single(float):
    """A number of 32 bits; a plain float has 64."""


Field = tuple[int, int | float | str | bytes]  # number and value


def message(*fields: Field) -> bytes:
    """Fields as protobuf writes them."""
    parts = []
    for number, value in fields:
        if isinstance(value, int):  # a truth value too
            parts += [varint(number << 3), varint(value)]
        elif isinstance(value, Single):
            parts += [varint(number << 3 | 5), struct.pack("<f", single(value))]
        elif isinstance(value, float):
            parts += [varint(number << 3 | 1), struct.pack("<d", value)]
        else:
            data = value.encode() if isinstance(value, str) else value
            parts += [varint(number << 3 | 2), varint(len(data)), data]
    return b"".join(parts)


def single(value: float) -> float:
    """The number, or infinity if 32 bits cannot hold it."""
    try:
        return struct.unpack("<f", struct.pack("<f", value))[0]
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def varint(number: int) -> bytes:
    """Seven bits a byte, the lowest first."""
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)


def checksum_table() -> list[int]:
    table = []
    for crc in range(256):
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)  # Castagnoli's polynomial
        table.append(crc)
    return table


TABLE = checksum_table()


def masked_checksum(data: bytes) -> int:
    """CRC-32C, rotated and shifted as TensorFlow's records have it."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ TABLE[(crc ^ byte) & 0xFF]
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
