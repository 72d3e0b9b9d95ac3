"""record.py SCRATCH FILE: starts a Ray of one host, has actors hold two of its GPUs, and records in FILE what the
dashboard says of the host. Run by `record` as PID 1 of namespaces of their own."""

import json
import os
import subprocess
import sys
import time
import urllib.request

ADDRESS = "10.9.0.1"
DASHBOARD = "http://127.0.0.1:8265"
# What is kept of the answer: what GPUs are told in, and what is read beside them.
MEMBERS = ("now", "hostname", "ip", "workers", "agent", "gcs", "gpus", "tpus")
OF_RAYLET = ("nodeId", "state", "resourcesTotal", "labels")
# Places in the table of nvml.c: a whole GPU, and a MIG device.
HELD = (0, 4)


def ask(route):
    began = time.monotonic()
    request = urllib.request.Request(DASHBOARD + route, headers={"Accept": "application/json"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        return answer, answer.read().decode(), (time.monotonic() - began) * 1000


def until(what, seconds=90):
    end = time.monotonic() + seconds
    while True:
        try:
            if found := what():
                return found
        except (OSError, LookupError):
            pass  # not told yet
        if time.monotonic() > end:
            sys.exit(f"{what.__name__}: not within {seconds} s")
        time.sleep(1)


def held():
    """The host's answer once its GPUs and its processes tell of both actors, and whose they are."""
    (node,) = json.loads(ask("/nodes?view=summary")[1])["data"]["summary"]
    route = f"/nodes/{node['raylet']['nodeId']}?nocache=1"
    answer, body, took = ask(route)
    detail = json.loads(body)["data"]["detail"]
    on_gpus = {process["pid"] for gpu in detail.get("gpus", []) for process in gpu["processesPids"]}
    # The job comes later than the process: until then it is `ffff`.
    of_jobs = {worker["pid"] for worker in detail["workers"] if worker["gpuMemoryUsage"] and worker["jobId"] != "ffff"}
    return len(on_gpus & of_jobs) == len(HELD) and (route, answer, body, took)


def trimmed(body):
    """The body without what no test reads, and without the blanks that Ray's titles leave of a command line."""
    answer = json.loads(body)
    detail = answer["data"]["detail"]
    raylet = {name: detail["raylet"][name] for name in OF_RAYLET}
    detail = {name: detail[name] for name in MEMBERS if name in detail} | {"raylet": raylet}
    for process in [*detail["workers"], detail["agent"], detail["gcs"]]:
        words = [word for word in process["cmdline"] if word]
        process["cmdline"] = [os.path.basename(words[0])] if os.sep in words[0] else words[:1]
    answer["data"]["detail"] = detail
    return json.dumps(answer)


def main(scratch, file):
    for command in (
        "hostname gpu-host",
        "ip link set lo up",
        f"ip addr add {ADDRESS}/32 dev lo",
        f"ray start --head --node-ip-address={ADDRESS} --include-dashboard=true --num-cpus=1 --num-gpus=4"
        f" --object-store-memory=80000000 --temp-dir={scratch}",
    ):
        done = subprocess.run(command.split(), text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if done.returncode:
            sys.exit(f"{command}: {done.stdout}")

    import ray

    ray.init(address=f"{ADDRESS}:6379", log_to_driver=False, logging_level="ERROR")

    @ray.remote(num_cpus=0, num_gpus=1)
    class Trainer:
        def pid(self):
            return os.getpid()

    trainers = [Trainer.remote() for _ in HELD]
    pids = ray.get([trainer.pid.remote() for trainer in trainers], timeout=120)
    with open(os.environ["NVML_PROCESSES"], "w") as processes:
        for place, pid in zip(HELD, pids):
            print(place, pid, file=processes)
    route, answer, body, took = until(held)
    recorded = {
        "request": {"method": "GET", "path": route, "headers": {"Accept": "application/json"}},
        "status": answer.status,
        "reason": answer.reason,
        "headers": dict(answer.headers),
        "body": trimmed(body),
        # Before it was trimmed.
        "body_bytes": len(body),
        "elapsed_ms": round(took, 1),
    }
    with open(file, "w") as out:
        json.dump(recorded, out, indent=1)
        out.write("\n")
    print(file)


main(*sys.argv[1:])
