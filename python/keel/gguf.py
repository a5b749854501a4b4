"""python -m keel.gguf MODEL.gguf FOLDER [--dtype float32|float16|bfloat16|packed]

Turns a llama model in a .gguf file into a folder that mlx-lm and transformers load: config.json,
tokenizer.json, tokenizer_config.json, model.safetensors. Weights become numbers of one dtype, or
stay packed as they are in the file (for mlx-lm alone).
"""

import argparse
import json
import os
import sys

import keel.core as mx
from keel._command import run

# What splits a text before pairs are merged, by the name that the file gives it.
_DIGITS = {"type": "Digits", "individual_digits": True}
_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
_BEHIND_SPLIT = {**_LEVEL, "use_regex": False}


def _split(pattern):
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}


def _words(digits):
    return (
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}" + digits + r"| ?[^\s\p{L}\p{N}]+[\r\n]*"
        r"|\s*[\r\n]+|\s+(?!\S)|\s+"
    )


_SPLITTERS = {
    "gpt-2": [_LEVEL],
    "default": [_LEVEL],
    "smollm": [_DIGITS, _LEVEL],
    "llama-bpe": [_split(_words("{1,3}")), _BEHIND_SPLIT],
    "qwen2": [_split(_words("")), _BEHIND_SPLIT],
}

_LAYER = {
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_GROUP = 32  # numbers that share a scale in the file's blocks


def _name(name):
    """The name of a tensor in a folder, without its last part; None for one that is not needed."""
    if name.startswith("blk."):
        _, layer, part = name.split(".")
        if part not in _LAYER:
            raise ValueError(f"the tensor {name} belongs to no llama model")
        return f"model.layers.{layer}.{_LAYER[part]}"
    known = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head", "rope_freqs": None}
    if name not in known:
        raise ValueError(f"the tensor {name} belongs to no llama model")
    return known[name]


def _halves(w, heads):
    """Rows of queries and keys, from pairs of neighbours to the two halves of each head."""
    return w.reshape(heads, -1, 2, *w.shape[1:]).swapaxes(1, 2).reshape(w.shape)


def weights(arrays, heads, kv_heads, dtype):
    """The tensors of a folder from those of the file, and the bits of packed ones by name."""
    out, bits = {}, {}
    for key, w in arrays.items():
        stem, _, last = key.rpartition(".")
        name = _name(stem)
        if name is None or last in ("scales", "biases"):
            continue
        parts = {"weight": w}
        scales = arrays.get(stem + ".scales")
        if scales is not None:
            n_bits = 32 * w.shape[-1] // (scales.shape[-1] * _GROUP)
            parts.update(scales=scales, biases=arrays[stem + ".biases"])
            if dtype is None:
                bits[name] = n_bits
            else:
                scales, biases = (parts[p].astype(mx.float32) for p in ("scales", "biases"))
                parts = {"weight": mx.dequantize(w, scales, biases, _GROUP, n_bits).astype(dtype)}
        elif dtype is not None:
            parts = {"weight": w.astype(dtype)}
        turn = heads if stem.endswith("attn_q") else kv_heads if stem.endswith("attn_k") else 0
        for part, value in parts.items():
            out[f"{name}.{part}"] = _halves(value, turn) if turn else value
    return out, bits


def tokenizer(metadata):
    """tokenizer.json and tokenizer_config.json from the vocabulary in the file."""
    if metadata["tokenizer.ggml.model"] != "gpt2":
        raise ValueError(f"the tokenizer is {metadata['tokenizer.ggml.model']!r}, but must be 'gpt2' (merged pairs of bytes)")
    splitter = metadata.get("tokenizer.ggml.pre", "default")
    if splitter not in _SPLITTERS:
        raise ValueError(f"texts are split as {splitter!r}, but known are {sorted(_SPLITTERS)}")
    tokens = metadata["tokenizer.ggml.tokens"]
    kinds = metadata["tokenizer.ggml.token_type"].tolist()
    added = [
        {"id": i, "content": t, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": k == 3}
        for i, (t, k) in enumerate(zip(tokens, kinds))
        if k in (3, 4)  # control tokens, and tokens of the user
    ]
    model = {
        "type": "BPE",
        "dropout": None,
        "unk_token": None,
        "continuing_subword_prefix": "",
        "end_of_word_suffix": "",
        "fuse_unk": False,
        "byte_fallback": False,
        "vocab": {t: i for i, t in enumerate(tokens)},
        "merges": metadata["tokenizer.ggml.merges"],
    }
    full = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added,
        "normalizer": None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": _SPLITTERS[splitter]},
        "post_processor": None,
        "decoder": _LEVEL,
        "model": model,
    }
    named = {
        f"{kind}_token": tokens[metadata[f"tokenizer.ggml.{key}_token_id"].item()]
        for kind, key in (("bos", "bos"), ("eos", "eos"), ("pad", "padding"), ("unk", "unknown"))
        if f"tokenizer.ggml.{key}_token_id" in metadata
    }
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "clean_up_tokenization_spaces": False,
        "add_prefix_space": False,
        **named,
    }
    if "tokenizer.chat_template" in metadata:
        config["chat_template"] = metadata["tokenizer.chat_template"]
    return full, config


def convert(path, folder, dtype):
    """Writes the folder; dtype None keeps packed weights. Returns the number of tensors."""
    arrays, metadata = mx.load(path, return_metadata=True)
    kind = metadata.get("general.architecture")
    if kind != "llama":
        raise ValueError(f"the model is a {kind!r}, but must be a 'llama'")
    number = lambda key: metadata[f"llama.{key}"].item()
    heads, kv_heads = number("attention.head_count"), number("attention.head_count_kv")
    tensors, bits = weights(arrays, heads, kv_heads, dtype)
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_act": "silu",
        "hidden_size": number("embedding_length"),
        "intermediate_size": number("feed_forward_length"),
        "num_hidden_layers": number("block_count"),
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "max_position_embeddings": number("context_length"),
        "rms_norm_eps": number("attention.layer_norm_rms_epsilon"),
        "rope_theta": number("rope.freq_base"),
        "vocab_size": len(metadata["tokenizer.ggml.tokens"]),
        "tie_word_embeddings": "output.weight" not in arrays,
        "bos_token_id": metadata["tokenizer.ggml.bos_token_id"].item(),
        "eos_token_id": metadata["tokenizer.ggml.eos_token_id"].item(),
        "torch_dtype": "float32" if dtype is None else dtype._name,
    }
    if bits:
        usual = max(set(bits.values()), key=list(bits.values()).count)
        config["quantization"] = {"group_size": _GROUP, "bits": usual}
        for name, n in bits.items():
            if n != usual:
                config["quantization"][name] = {"group_size": _GROUP, "bits": n}
    vocabulary, texts = tokenizer(metadata)
    os.makedirs(folder, exist_ok=True)
    mx.save_safetensors(os.path.join(folder, "model.safetensors"), tensors, {"format": "mlx"})
    for name, content in (("config", config), ("tokenizer", vocabulary), ("tokenizer_config", texts)):
        with open(os.path.join(folder, name + ".json"), "w", encoding="utf-8") as out:
            json.dump(content, out, ensure_ascii=False, indent=None if name == "tokenizer" else 1)
    return len(tensors)


def main():
    p = argparse.ArgumentParser(prog="python -m keel.gguf", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("model")
    p.add_argument("folder")
    p.add_argument("--dtype", choices=("float32", "float16", "bfloat16", "packed"), default="float32")
    a = p.parse_args()
    try:
        n = convert(a.model, a.folder, None if a.dtype == "packed" else getattr(mx, a.dtype))
    except (ValueError, RuntimeError, KeyError, OSError) as e:
        sys.exit(f"{a.model}: {e}")
    print(f"{a.folder}: {n} tensors as {a.dtype}")


if __name__ == "__main__":
    run(main)
