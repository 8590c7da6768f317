import json, os, resource, time, pytest
from collections import Counter
C = Counter()
def use():
    import jax.monitoring as m
    def on(name, secs, **k):
        n = name.rsplit("/",1)[-1]
        C[n] += secs; C[n+"#"] += 1
    m.register_event_duration_secs_listener(on)
used = False
OUT = os.environ["CPU_OUT"] + "-" + os.environ.get("PYTEST_XDIST_WORKER", "alone") + ".jsonl"
def snap():
    a = resource.getrusage(resource.RUSAGE_SELF); b = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.time(), a.ru_utime + a.ru_stime, b.ru_utime + b.ru_stime, a.ru_maxrss
@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_runtest_protocol(item, nextitem):
    global used
    if not used:
        used = True; use()
    C.clear(); s = snap()
    yield
    e = snap()
    row = dict(id=item.nodeid, wall=e[0]-s[0], cpu=e[1]-s[1], child=e[2]-s[2], rss=e[3]/1e6, at=e[0])
    row |= {k: round(v,3) for k,v in C.items() if "compile" in k or "trace" in k or "mlir" in k}
    with open(OUT, "a") as f: f.write(json.dumps(row)+"\n")
