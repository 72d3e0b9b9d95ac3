"""One of the runs of tests/watch-vitals: well in its own way, or with a trouble that begins after a while. Its times are those
of real runs: compilation, evaluations, checkpoints, a loss with noise. Ray is all it needs."""

import argparse
import logging
import random
import sys
import threading
import time

import ray


def loss(step, seconds, rng):
    """Falls, with noise and a spike now and then."""
    spike = 1.8 if rng.random() < 0.003 else 1.0
    return (1.9 + 7.0 / (1.0 + step * seconds / 120.0) ** 0.6) * rng.uniform(0.95, 1.05) * spike


class Run:
    """A run that makes steps; `kind` is its name, `after` the seconds until its trouble."""

    def __init__(self, kind, after):
        form = "%(asctime)s - %(name)s - %(levelname)s - %(message)s"
        logging.basicConfig(level=logging.INFO, format=form, stream=sys.stdout, force=True)
        self.log = logging.getLogger("levanter.tracker").info
        self.kind, self.after, self.began = kind, after, time.monotonic()
        self.rng = random.Random(kind)

    def is_sick(self):
        return time.monotonic() - self.began > self.after

    def ready(self):
        return True

    def train(self):
        return {"bar": self.bar, "long-steps": self.long_steps, "serves": self.serves}.get(self.kind, self.steps)()

    def steps(self):
        self.log("Tracing train_step for jaxpr...")
        time.sleep(20)
        self.log("Lowered train_step in 20.1s")
        self.log("First batch loaded in 1.2s, starting first train step (includes JIT compilation)...")
        time.sleep(40)
        step, began, saved, tested, above, resumed = 0, time.monotonic(), 0.0, 0.0, 1.0, False
        while True:
            spent = time.monotonic() - began
            seconds = 2.0 * self.rng.uniform(0.9, 1.1)
            value = loss(step, 2.0, self.rng)
            if self.is_sick():
                if self.kind == "stalls":
                    threading.Event().wait()
                seconds *= 4 / 3 if self.kind == "slows" else 1
                above += 0.01 if self.kind == "diverges" else 0
                value = float("nan") if self.kind == "nan" else value * above
                if self.kind == "resumes" and not resumed:
                    self.log("Tracing train_step for jaxpr...")
                    time.sleep(60)
                    step, resumed = step - step % 100, True
            time.sleep(seconds)
            step += 1
            self.log(f"Progress on:train {step}it/50000it rate:{seconds:.1f}s/it remaining:1:00:00 elapsed:{spent:.0f} postfix:loss={value:.3f}")
            if spent - saved > 300:
                saved = spent
                time.sleep(12)
                self.log(f"Saved checkpoint to gs://bucket/{self.kind}/step-{step} for step {step}")
            if spent - tested > 600:
                tested = spent
                for part in range(1, 25):
                    time.sleep(5)
                    self.log(f"Progress on:eval {part}it/24it rate:5.0s/it remaining:0:10 elapsed:{part * 5} postfix:loss={value:.3f}")

    def bar(self):
        for step in range(1, 40_000):
            time.sleep(0.5)
            text = f"train:   0%|          | {step}/40000 [00:10<05:12:00,  2.00it/s, loss={loss(step, 0.5, self.rng):.3f}]"
            sys.stderr.write("\r" + text)
            sys.stderr.flush()
            if step % 1000 == 0:
                sys.stderr.write("\n")

    def long_steps(self):
        for step in range(10_000):
            seconds = 40.0 * self.rng.uniform(0.95, 1.05)
            time.sleep(seconds)
            value = loss(step, 40.0, self.rng)
            print(f"completed step: {step}, seconds: {seconds:.3f}, TFLOP/s/device: 210.4, Tokens/s/device: 9870.1, total_weights: 131072, loss: {value:.3f}", flush=True)

    def serves(self):
        while True:
            time.sleep(self.rng.uniform(1.0, 90.0))
            print(f"served {self.rng.randint(1, 40)} requests in {self.rng.uniform(0.1, 3):.2f} s", flush=True)


@ray.remote(num_cpus=0.01)
def tokenize(shard):
    time.sleep(240)
    return shard


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("kind")
    arguments.add_argument("--after", type=float, default=480)
    arguments = arguments.parse_args()
    ray.init()
    if arguments.kind == "tokenizes":
        for batch in range(1000):
            ray.get([tokenize.remote(shard) for shard in range(2)])
            print(f"batch {batch} is done", flush=True)
    # The bed has eight chips.
    none = {"serves": {}, "resumes": {}, "waits": {"TPU-v5p-256-head": 1}}
    needs = none.get(arguments.kind, {"TPU": 1})
    run = ray.remote(num_cpus=0, resources=needs)(Run).remote(arguments.kind, arguments.after)
    ray.get(run.ready.remote())
    if arguments.kind == "abandoned":
        time.sleep(arguments.after)
        ray.kill(run)
        threading.Event().wait()
    ray.get(run.train.remote())


if __name__ == "__main__":
    main()
