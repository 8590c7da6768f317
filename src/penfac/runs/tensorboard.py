"""Scalars and settings for TensorBoard, without a thread of their own."""

import socket
import struct
import time
import uuid
from pathlib import Path
from typing import Any


class Board:
    """Events for TensorBoard. Written by the thread that trains: a disk that refuses is
    heard at once, where a writing thread of its own would die and its queue fill up."""

    def __init__(self, folder: Path, step: int, hparams: dict[str, Any]):
        from tensorboardX.proto import event_pb2, summary_pb2

        self.events: Any = event_pb2  # messages that only exist at run time
        self.summaries: Any = summary_pb2
        folder.mkdir(exist_ok=True)
        stamp = f"{time.time():.0f}.{socket.gethostname()}.{uuid.uuid4().hex}"
        self.file = open(folder / f"events.out.tfevents.{stamp}", "wb")  # noqa: SIM115
        self._write(self.events.Event(step=step, file_version="brain.Event:2"))
        # what an earlier process wrote from this step on does not count
        start = self.events.SessionLog(status=self.events.SessionLog.START)
        self._write(self.events.Event(step=step, session_log=start))
        if hparams:
            self._list(hparams)

    def scalars(self, values: dict[str, float], step: int) -> None:
        kind = self.summaries.Summary
        rows = [kind.Value(tag=k, simple_value=v) for k, v in values.items()]
        self._write(self.events.Event(step=step, summary=kind(value=rows)))
        self.file.flush()

    def _list(self, hparams: dict[str, Any]) -> None:
        """Settings for the table of runs, beside the last judgement of each."""
        from tensorboardX.summary import hparams as listed

        metrics = {"eval/mean_reward": None, "eval/mean_ep_length": None}
        experiment, session, _ = listed(hparams, metrics)
        for summary in (experiment, session):
            self._write(self.events.Event(summary=summary))
        self.file.flush()

    def _write(self, event: Any) -> None:
        """One record: its length, the checksum of that, itself, its checksum."""
        from tensorboardX.record_writer import masked_crc32c

        event.wall_time = time.time()
        data = event.SerializeToString()
        length = struct.pack("<Q", len(data))
        for part in (length, data):
            self.file.write(part + struct.pack("<I", masked_crc32c(part)))
