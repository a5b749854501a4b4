#!/usr/bin/env python3
"""The logits of a llama model in a GGUF file, computed by MLX, beside those of the example generate.

    python3 tools/peers/lm_reference.py MODEL.gguf [path/to/generate [cpu | gpu]] [--ids 1,2,3] [--generate N] [--half-rope]

Prints the best token after each id. With the example: the largest difference of a logit, and whether both have the same best token at every position and generate the same N tokens; ends with 1 when not, or when a logit differs by more
than 1e-3. The clock of the N tokens begins behind the first. --half-rope rotates the other pairs of features, to see that the order of rows in the file matters. Needs mlx and NumPy."""
import argparse
import os
import subprocess
import sys
import tempfile
import time

import mlx.core as mx
import numpy as np

TOLERANCE = 1e-3
# "<|im_start|>user\nWhat is the capital of France?<|im_end|>\n<|im_start|>assistant\n" in the tokens of SmolLM2
IDS = "1,4093,198,1780,314,260,3575,282,4649,47,2,198,1,520,9531,198"


class Model:
    def __init__(self, path, interleaved):
        self.tensors, meta = mx.load(path, return_metadata=True)
        assert meta["general.architecture"] == "llama", meta["general.architecture"]
        number = lambda key: meta["llama." + key].item()
        self.layers, self.width = number("block_count"), number("embedding_length")
        self.heads, self.kv_heads = number("attention.head_count"), number("attention.head_count_kv")
        self.head = self.width // self.heads
        self.eps, self.base = number("attention.layer_norm_rms_epsilon"), number("rope.freq_base")
        self.interleaved = interleaved
        for name, tensor in self.tensors.items():  # scales are float16 in the file; all is float32 here, as in the example
            if name.endswith((".scales", ".biases")):
                self.tensors[name] = tensor.astype(mx.float32)
        mx.eval(list(self.tensors.values()))
        self.cache = [None] * self.layers

    def linear(self, x, name):
        w, scales = self.tensors[name + ".weight"], self.tensors.get(name + ".scales")
        if scales is None:
            return x @ w.T
        return mx.quantized_matmul(x, w, scales, self.tensors[name + ".biases"], transpose=True, group_size=32, bits=w.shape[-1] // scales.shape[-1])

    def norm(self, x, name):
        return mx.fast.rms_norm(x, self.tensors[name + ".weight"], self.eps)

    def embed(self, ids):
        w, scales = self.tensors["token_embd.weight"], self.tensors.get("token_embd.scales")
        if scales is None:
            return w[ids].astype(mx.float32)
        return mx.dequantize(w[ids], scales[ids], self.tensors["token_embd.biases"][ids], group_size=32, bits=w.shape[-1] // scales.shape[-1])

    def attention(self, x, prefix, layer):
        n, past = x.shape[0], 0 if self.cache[layer] is None else self.cache[layer][0].shape[2]
        split = lambda y, heads: y.reshape(1, n, heads, self.head).transpose(0, 2, 1, 3)
        rope = lambda y: mx.fast.rope(y, self.head, traditional=self.interleaved, base=self.base, scale=1.0, offset=past)
        q = rope(split(self.linear(x, prefix + "attn_q"), self.heads))
        k = rope(split(self.linear(x, prefix + "attn_k"), self.kv_heads))
        v = split(self.linear(x, prefix + "attn_v"), self.kv_heads)
        if past:
            k, v = mx.concatenate([self.cache[layer][0], k], axis=2), mx.concatenate([self.cache[layer][1], v], axis=2)
        self.cache[layer] = (k, v)
        y = mx.fast.scaled_dot_product_attention(q, k, v, scale=self.head**-0.5, mask="causal" if n > 1 else None)
        return self.linear(y.transpose(0, 2, 1, 3).reshape(n, self.heads * self.head), prefix + "attn_output")

    def logits(self, ids):
        x = self.embed(mx.array(ids))
        for layer in range(self.layers):
            prefix = f"blk.{layer}."
            x = x + self.attention(self.norm(x, prefix + "attn_norm"), prefix, layer)
            y = self.norm(x, prefix + "ffn_norm")
            gate = self.linear(y, prefix + "ffn_gate")
            x = x + self.linear(gate * mx.sigmoid(gate) * self.linear(y, prefix + "ffn_up"), prefix + "ffn_down")
        out = self.linear(self.norm(x, "output_norm"), "output" if "output.weight" in self.tensors else "token_embd")
        mx.eval(out, self.cache)
        return np.array(out)

    def generate(self, ids, n):
        self.cache = [None] * self.layers
        made = [int(np.argmax(self.logits(ids)[-1]))]
        start = time.perf_counter()
        while len(made) < n:
            made.append(int(np.argmax(self.logits(made[-1:])[-1])))
        return made, (n - 1) / (time.perf_counter() - start)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("example", nargs="?")
    parser.add_argument("device", nargs="?", default="cpu")
    parser.add_argument("--ids", default=IDS)
    parser.add_argument("--generate", type=int, default=0)
    parser.add_argument("--half-rope", action="store_true")
    o = parser.parse_args()
    mx.set_default_device(mx.cpu)
    ids = [int(i) for i in o.ids.split(",")]
    model = Model(o.model, not o.half_rope)
    logits = model.logits(ids)
    best = logits.argmax(-1)
    print("MLX       best tokens", ",".join(map(str, best)))
    own = logits - np.log(np.exp(logits - logits.max(-1, keepdims=True)).sum(-1, keepdims=True)) - logits.max(-1, keepdims=True)
    print("MLX       mean of -log p(next id) %.4f" % -np.mean([own[i, ids[i + 1]] for i in range(len(ids) - 1)]))
    made, rate = model.generate(ids, o.generate) if o.generate > 1 else ([], 0)
    if made:
        print(f"MLX       generates {','.join(map(str, made))}: {rate:.1f} tokens a second")
    if not o.example:
        return 0
    run = lambda *more: subprocess.run([o.example, o.model, o.device, "--ids", o.ids, *more], check=True, capture_output=True, text=True).stdout
    good = True
    for way, more in (("at once", []), ("step by step", ["--step"])):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "logits.npy")
            run("--logits", path, *more)
            mine = np.load(path)
        off, same = np.abs(mine.astype(np.float64) - logits).max(), (mine.argmax(-1) == best).sum()
        good = good and mine.shape == logits.shape and bool(np.isfinite(mine).all()) and off <= TOLERANCE and same == len(ids)
        print(f"{way}: largest difference {off:.2e} (logits up to {np.abs(logits).max():.1f}), same best token at {same} of {len(ids)} positions")
    if made:
        out = run("--generate", str(o.generate), "--through-end").splitlines()
        mine = next(line.split()[1] for line in out if line.startswith("ids"))
        print("generate ", next(line for line in out if "tokens a second" in line).strip())
        print("generated:", "the same tokens" if mine == ",".join(map(str, made)) else "OTHER TOKENS: " + mine)
        good = good and mine == ",".join(map(str, made))
    print("agrees" if good else "DIFFERS")
    return 0 if good else 1


sys.exit(main())
