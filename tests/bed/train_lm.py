"""A job for people to look at: fits a line through points by gradient descent, with an actor on each free TPU host,
and logs a step a second. Pure Python, so that Ray is all it needs."""

import argparse
import random
import time

import ray


@ray.remote(num_cpus=0, resources={"TPU": 4})
class Shard:
    def __init__(self, seed):
        points = random.Random(seed)
        self.data = [(x, 3.0 * x - 2.0 + points.gauss(0, 0.1)) for x in (points.uniform(-1, 1) for _ in range(2000))]

    def gradient(self, slope, offset):
        errors = [(slope * x + offset - y, x) for x, y in self.data]
        size = len(errors)
        loss = sum(e * e for e, _ in errors) / size
        return loss, sum(2 * e * x for e, x in errors) / size, sum(2 * e for e, _ in errors) / size


def main():
    args = argparse.ArgumentParser()
    args.add_argument("--model", required=True)
    args.add_argument("--steps", type=int, default=20_000)
    args.add_argument("--shards", type=int, default=1)
    args.add_argument("--resume")
    args = args.parse_args()
    slope, offset, first = 0.0, 0.0, 0
    if args.resume:
        with open(args.resume) as checkpoint:
            slope, offset, first = map(float, checkpoint.read().split())
    ray.init()
    shards = [Shard.remote(seed) for seed in range(args.shards)]
    print(f"{args.model}: {args.shards} shard(s), {args.steps} steps", flush=True)
    for step in range(int(first), args.steps):
        start = time.monotonic()
        parts = ray.get([shard.gradient.remote(slope, offset) for shard in shards])
        loss, by_slope, by_offset = (sum(column) / len(parts) for column in zip(*parts))
        slope, offset = slope - 0.02 * by_slope, offset - 0.02 * by_offset
        spent = time.monotonic() - start
        print(f"{time.strftime('%H:%M:%S')} step {step:>6}  loss {loss:.5f}  {spent * 1e3:.1f} ms/step", flush=True)
        time.sleep(max(0.0, 1.0 - spent))


if __name__ == "__main__":
    main()
