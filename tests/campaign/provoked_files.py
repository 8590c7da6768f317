"""The faults of the table that files bring: cut, flipped, forged, edited."""

import json
import os
import pickle
import random
import shutil
from pathlib import Path

from safetensors.numpy import save
from tests.campaign import damage, forgeries
from tests.campaign.bases import left
from tests.campaign.case import changed, must, tree
from tests.campaign.commands import answered, command, well
from tests.campaign.provocations import RUN, learn, refused, states, untouched


def half_checkpoint(here: Path) -> None:
    well(learn())
    shutil.copytree(RUN, "whole")
    file = states()[-1]
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    ended = well(command("resume", RUN))
    must("damaged checkpoint" in ended.out, "did not say so", "silent")
    must(left(RUN) == left(Path("whole")), "other bytes", "lost")


def cut_checkpoints(here: Path) -> None:
    well(learn())
    whole = {file: file.read_bytes() for file in states()}
    for share in (0.0, 0.01, 0.1, 0.5, 0.9, 0.999):
        for file, data in whole.items():
            file.write_bytes(data[: int(len(data) * share)])
        untouched(5, "truncated")


def flipped_bits(here: Path) -> None:
    well(learn())
    whole, rng = {file: file.read_bytes() for file in states()}, random.Random(2)
    for _ in range(6):
        for file, data in whole.items():
            file.write_bytes(data)
            damage.flip(file, rng)
        untouched(5, "sha256")


def pickles(here: Path) -> None:
    class Bomb:
        def __reduce__(self):
            return (Path.touch, (here / "went-off",))

    well(learn())
    for name in ("config.json", "policy/policy.safetensors", *map(str, states())):
        file = Path(name) if name.startswith("runs") else RUN / name
        whole = file.read_bytes()
        file.write_bytes(pickle.dumps(Bomb()))
        for verb in ("resume", "eval"):
            answered(command(verb, RUN))
        file.write_bytes(whole)
    must(not (here / "went-off").exists(), "it went off", "outside")


def leading_names(here: Path) -> None:
    (here / "in").mkdir()
    os.chdir(here / "in")
    Path("arms.toml").write_text("[one]\ngamma = 0.9\n[two]\ngamma = 0.8\n")
    well(learn("--arms=arms.toml"))
    well(command("runs", "pack", RUN, "hop"))
    before = tree(here)
    tensors, metadata = forgeries.parts(Path("hop.safetensors"))
    for name in ("../../../../evil", "/tmp/evil-campaign", ".", "..", "a/b"):  # noqa: S108
        text = metadata["penfac"].replace('"one"', json.dumps(name))
        Path("hop.safetensors").write_bytes(
            save(
                tensors, {"penfac": text, "seal": forgeries.bundle.seal(text, tensors)}
            )
        )
        refused((2, 5), command("runs", "unpack", "hop", "--out", "u"))
    new = changed(before, tree(here)).split(", ")
    must(new == ["'in/hop.safetensors'"], f"touched {new}", "outside")


def bad_headers(here: Path) -> None:
    well(learn())
    data = states()[-1].read_bytes()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    first, second = [key for key in header if key != "__metadata__"][:2]
    overlap = header | {second: header[first] | {"shape": header[second]["shape"]}}
    wrong = header | {first: header[first] | {"dtype": "F99"}}
    texts = [json.dumps(h).encode() for h in (overlap, wrong)] + [
        b"{" * 1000,
        b" " * 10,
    ]
    files = [len(t).to_bytes(8, "little") + t + data[8 + size :] for t in texts]
    files += [(200 << 20).to_bytes(8, "little") + data[8:], b"\xff" * 8 + data[8:]]
    for bad in files:
        for file in states():
            file.write_bytes(bad)
            forgeries.reseal(file)
        untouched(5)


def forged_arrays(here: Path) -> None:
    well(learn())
    shutil.copytree(RUN, "whole")
    for seed in range(8):
        for file in states():
            forgeries.sealed_arrays(file, random.Random(seed))
        untouched(5)
        shutil.rmtree(RUN)
        shutil.copytree("whole", RUN)


def formats(here: Path) -> None:
    import tests.faults

    earlier = Path(next(iter(tests.faults.__path__))) / "earlier" / "run"
    shutil.copytree(earlier, RUN)
    steps = json.loads((RUN / "config.json").read_text())["steps"]
    well(command("resume", RUN, "-n", steps + 50))
    document = json.loads((RUN / "config.json").read_text())
    (RUN / "config.json").write_text(json.dumps(document | {"format": 99}))
    untouched(5, "format 99")


def edited_config(here: Path) -> None:
    well(learn())
    document = json.loads((RUN / "config.json").read_text())
    document["config"] |= {"gamma": 0.5, "lam": 0.25}
    (RUN / "config.json").write_text(json.dumps(document))
    untouched(2, "config.gamma", "config.lam", "0.25")


def torn_rows(here: Path) -> None:
    well(learn())
    shutil.copytree(RUN, "whole")
    file = RUN / "progress.csv"
    whole = file.read_bytes()
    file.write_bytes(whole + b"3,150,15,to")
    well(command("resume", RUN))
    must(left(RUN) == left(Path("whole")), "other bytes", "lost")
    for bad in (whole[:-2], b"", whole.replace(b"0", b"1", 1), b"\xff" + whole):
        file.write_bytes(bad)
        untouched(5, "progress.csv")


def other_versions(here: Path) -> None:
    well(learn())
    for file in RUN.glob("checkpoints/*/state.json"):
        document = json.loads(file.read_text())
        document["versions"]["jax"] = "0.1.2"
        document["seal"] = forgeries.checkpoints.seal(document)
        file.write_text(json.dumps(document))
    ended = well(command("resume", RUN, "-n", "150"))
    must("jax" in ended.out, f"does not say so: {ended.out}", "silent")
