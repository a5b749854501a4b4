#!/usr/bin/env python3
"""Programs of mlx-lm on Keel: python tools/peers/lm_programs.py FOLDER [NAME...], in an environment where mlx.core is Keel.

FOLDER: a small model that mlx-lm loads. Each check prints one line; ends with 1 when one fails. The checks: convert (4 and 8 bits), lora (the loss falls) and fuse, cache (a prompt cache that is saved and loaded continues as without), server (16 clients
at once, streaming, get what one alone gets; a cancelled one harms nobody), faults (32 generations at once on one model, each tenth with a fault of its own: the others are right)."""

import http.client
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time

import mlx.core as mx
from mlx_lm import generate, load, stream_generate
from mlx_lm.generate import generate_step
from mlx_lm.models.cache import load_prompt_cache, make_prompt_cache, save_prompt_cache

PROMPT = "What is the capital of France?"


def ids_of(tokenizer, text):
    return tokenizer.apply_chat_template([{"role": "user", "content": text}], add_generation_prompt=True)


def tokens(model, prompt, n=12, **kwargs):
    return [int(t) for t, _ in generate_step(mx.array(prompt), model, max_tokens=n, **kwargs)]


def run(*args):
    r = subprocess.run([sys.executable, "-m", "mlx_lm", *args], capture_output=True, text=True)
    if r.returncode:
        raise AssertionError(f"mlx_lm {args[0]} failed:\n{r.stdout[-2000:]}{r.stderr[-2000:]}")
    return r.stdout


def convert(folder, scratch):
    sizes = []
    for bits in (4, 8):
        out = os.path.join(scratch, f"bits{bits}")
        run("convert", "--hf-path", folder, "--mlx-path", out, "-q", "--q-bits", str(bits))
        model, tokenizer = load(out)
        assert len(tokens(model, ids_of(tokenizer, PROMPT))) == 12
        sizes.append(os.path.getsize(os.path.join(out, "model.safetensors")) >> 20)
    answer = generate(model, tokenizer, ids_of(tokenizer, PROMPT), max_tokens=8)
    assert "Paris" in answer, answer  # 8 bits keep what the model knows
    return f"4 bits: {sizes[0]} MB, 8 bits: {sizes[1]} MB, which answers {answer!r}"


def lora(folder, scratch):
    data, adapter, fused = (os.path.join(scratch, name) for name in ("data", "adapter", "fused"))
    os.makedirs(data)
    for name, n in (("train", 24), ("valid", 4)):
        with open(os.path.join(data, name + ".jsonl"), "w") as f:
            for i in range(n):
                k = 3 + i % 6
                f.write(json.dumps({"text": f"Ada has {k} pears. Ada eats one. Now Ada has {k - 1} pears."}) + "\n")
    said = run("lora", "--model", folder, "--train", "--data", data, "--adapter-path", adapter, "--iters", "12", "--batch-size", "2", "--num-layers", "2",
               "--steps-per-report", "4", "--steps-per-eval", "100", "--val-batches", "1", "--learning-rate", "1e-4")  # fmt: skip
    plain = re.sub(r"\x1b\[[0-9;]*m", "", said)
    losses = [float(x) for x in re.findall(r"^\s+\d+\s+(\d+\.\d+)", plain, re.M)]
    assert len(losses) == 3 and losses[2] < losses[0] - 0.3, losses
    run("fuse", "--model", folder, "--adapter-path", adapter, "--save-path", fused)
    with_adapter, tokenizer = load(folder, adapter_path=adapter)
    prompt = ids_of(tokenizer, PROMPT)
    assert tokens(load(fused)[0], prompt) == tokens(with_adapter, prompt)
    path = os.path.join(adapter, "adapters.safetensors")
    with open(path, "r+b") as f:
        f.truncate(os.path.getsize(path) // 2)
    try:
        tokens(load(folder, adapter_path=adapter)[0], prompt)
        raise AssertionError("an adapter file that is cut short was taken")
    except (RuntimeError, ValueError) as e:
        assert "adapters.safetensors" in str(e), e
    return f"loss {losses[0]:.3f} to {losses[2]:.3f}; fused, the same tokens; an adapter cut short is refused"


def cache(folder, scratch):
    model, tokenizer = load(folder)
    prompt, path = ids_of(tokenizer, PROMPT), os.path.join(scratch, "cache.safetensors")
    expected = tokens(model, prompt)
    kept = make_prompt_cache(model)
    tokens(model, prompt[:-4], 1, prompt_cache=kept)
    for c in kept:
        c.trim(c.offset - len(prompt) + 4)
    save_prompt_cache(path, kept)
    got = tokens(model, prompt[-4:], prompt_cache=load_prompt_cache(path))
    assert got == expected, (got, expected)
    return f"{os.path.getsize(path) >> 10} KB, the same tokens as without"


def server(folder, scratch):
    port = 18000 + os.getpid() % 2000
    log = open(os.path.join(scratch, "server.log"), "w")
    p = subprocess.Popen([sys.executable, "-m", "mlx_lm", "server", "--model", folder, "--port", str(port)], stdout=log, stderr=log)

    def ask(stream, cut=False):
        c = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        body = {"messages": [{"role": "user", "content": PROMPT}], "max_tokens": 8, "temperature": 0, "stream": stream}
        c.request("POST", "/v1/chat/completions", json.dumps(body), {"Content-Type": "application/json"})
        r = c.getresponse()
        assert r.status == 200, r.read()
        if not stream:
            return json.loads(r.read())["choices"][0]["message"]["content"]
        text = ""
        for line in r:
            if cut:
                c.close()
                return None
            if line.startswith(b"data: {"):
                text += json.loads(line[6:])["choices"][0]["delta"].get("content") or ""
        return text

    try:
        deadline = time.monotonic() + 120
        while True:  # until it listens
            try:
                alone = ask(False)
                break
            except OSError:
                assert p.poll() is None and time.monotonic() < deadline, "the server did not start"
                threading.Event().wait(0.2)
        answers = [None] * 16

        def client(i):
            try:
                answers[i] = ask(i % 2 == 0, cut=i == 7) if i != 8 else ask(True, cut=True)
            except Exception as e:  # noqa: BLE001
                answers[i] = e

        threads = [threading.Thread(target=client, args=(i,)) for i in range(16)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        wrong = [(i, a) for i, a in enumerate(answers) if i != 8 and a != alone]
        assert not wrong, (alone, wrong)
        assert ask(True) == alone
    finally:
        p.terminate()
        p.wait()
        log.close()
    return f"15 of 16 clients got {alone!r}, one went away"


def faults(folder, scratch):
    model, tokenizer = load(folder)
    prompt = ids_of(tokenizer, PROMPT)
    expected = tokens(model, prompt)
    results, barrier = [None] * 32, threading.Barrier(32)
    vocabulary = model.model.embed_tokens.weight.shape[0]

    def work(i):
        barrier.wait()
        try:
            if i == 10:  # a token out of range
                tokens(model, prompt[:5] + [vocabulary + 3] + prompt[5:])
            elif i == 20:  # an adapter that is cut short
                path = os.path.join(scratch, "cut.safetensors")
                mx.save_safetensors(path, {"w": mx.ones((64, 64))})
                os.truncate(path, 2000)
                (mx.load(path)["w"] @ mx.ones((64, 1))).tolist()
            elif i == 30:  # a reader who goes away
                next(stream_generate(model, tokenizer, prompt, max_tokens=12))
                results[i] = "away"
                return
            results[i] = tokens(model, prompt)
        except Exception as e:  # noqa: BLE001
            results[i] = e

    threads = [threading.Thread(target=work, args=(i,)) for i in range(32)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert isinstance(results[10], IndexError) and results[10].index == vocabulary + 3, results[10]
    assert isinstance(results[20], RuntimeError) and results[20].file.endswith("cut.safetensors"), results[20]
    assert results[30] == "away"
    wrong = [i for i in range(32) if i not in (10, 20, 30) and results[i] != expected]
    assert not wrong, (wrong, results[wrong[0]], expected)
    return "29 right, 3 failed alone, each as it should"


CHECKS = {f.__name__: f for f in (convert, lora, cache, server, faults)}


def main():
    folder, names = os.path.abspath(sys.argv[1]), sys.argv[2:] or list(CHECKS)
    assert mx.__name__ == "keel.core", f"mlx.core is {mx.__name__}"
    failed = False
    for name in names:
        start = time.perf_counter()
        with tempfile.TemporaryDirectory() as scratch:
            try:
                said = CHECKS[name](folder, scratch)
            except Exception as e:  # noqa: BLE001
                failed, said = True, f"FAILED: {type(e).__name__}: {e}"
        print(f"{name:8} {said} ({time.perf_counter() - start:.1f} s)", flush=True)
    sys.exit(failed)


if __name__ == "__main__":
    main()
