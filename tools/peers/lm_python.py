#!/usr/bin/env python3
"""Greedy text of mlx-lm on Keel beside the same on MLX: KEEL_MLX=PATH python3 tools/peers/lm_python.py FOLDER PYTHON [N]

FOLDER: a model that mlx-lm loads. PYTHON: an interpreter with Keel, MLX and mlx-lm. KEEL_MLX: what the path of modules needs before all else so that mlx.core is Keel. Both write N (64) tokens after each of a few prompts. They must be the same, or differ first where MLX's two
best logits are closer than 1e-4; what follows is then not compared. Prints tokens per second of each and ends with 1 when they differ."""

import json
import os
import subprocess
import sys
import time

PROMPTS = ["What is the capital of France?", "Write a short story about a robot that learns to paint.", "Explain gravity to a child."]


def work(folder, n):
    """In an environment: the tokens, and the distance of the two best logits at each."""
    import mlx.core as mx
    from mlx_lm import load
    from mlx_lm.generate import generate_step

    model, tokenizer = load(folder)
    out = {"core": mx.__name__, "runs": []}
    for prompt in PROMPTS:
        ids = tokenizer.apply_chat_template([{"role": "user", "content": prompt}], add_generation_prompt=True)
        tokens, gaps, times = [], [], []
        for token, logprobs in generate_step(mx.array(ids), model, max_tokens=n):
            best = mx.sort(logprobs.reshape(-1))[-2:].tolist()
            tokens.append(int(token))
            gaps.append(best[1] - best[0])
            times.append(time.perf_counter())
        out["runs"].append({"tokens": tokens, "gaps": gaps, "rate": (len(times) - 1) / (times[-1] - times[0]), "text": tokenizer.decode(tokens)})
    print(json.dumps(out))


def main():
    folder, python = sys.argv[1:3]
    n = sys.argv[3] if len(sys.argv) > 3 else "64"
    results = []
    for path, core in ((os.environ["KEEL_MLX"], "keel.core"), ("", "mlx.core")):
        env = {**os.environ, "PYTHONPATH": path}
        r = subprocess.run([python, __file__, "--work", folder, n], capture_output=True, text=True, env=env)
        if r.returncode:
            sys.exit(r.stderr)
        results.append(json.loads(r.stdout.splitlines()[-1]))
        if results[-1]["core"] != core:
            sys.exit(f"mlx.core is {results[-1]['core']}, but should be {core}")
    failed = False
    for prompt, a, b in zip(PROMPTS, results[0]["runs"], results[1]["runs"]):
        at = next((i for i, (x, y) in enumerate(zip(a["tokens"], b["tokens"])) if x != y), None)
        near = at is not None and b["gaps"][at] < 1e-4
        failed = failed or (at is not None and not near)
        verdict = "same tokens" if at is None else f"differ at token {at}, where MLX's two best are {b['gaps'][at]:.2g} apart"
        print(f"{prompt}\n  {a['text'][:100]!r}\n  {verdict}; {a['rate']:.1f} tokens per second on Keel, {b['rate']:.1f} on MLX")
    sys.exit(failed)


if __name__ == "__main__":
    if sys.argv[1] == "--work":
        work(sys.argv[2], int(sys.argv[3]))
    else:
        main()
