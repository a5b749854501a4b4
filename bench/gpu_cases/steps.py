"""Cases of many steps: chains of tiny operations, values that go between streams, loading from files."""
import ctypes as C
import os
import statistics
import time

import torch

from .measure import (
    ALONE, INT, PTR, ROUNDS, S, Handle, async_eval, both, call, case, chosen, cupy, declare, dev,
    free_array, keel_sync, last_error, lib, mx, new_array, normal, peer_torch, run, synchronize,
    tsync, vec, vec_free,
)


def chains():
    if not chosen("chain of tiny adds"):
        return
    n, m = 256, 2000
    ka, ta = both(normal(n))
    kb, tb = both(normal(n))
    add = lib.mlx_add
    times = {"keel": [], "torch": []}
    if cupy is not None:
        ca, cb = cupy.asarray(ta), cupy.asarray(tb)
        times["cupy"] = []

    def keel():
        # Each result is kept, so that no two can become one kernel.
        out = (Handle * m)()
        x = ka
        for i in range(m):
            out[i] = new_array()
            add(C.byref(out[i]), x, kb, S)
            x = out[i]
        v = vec(out, m)
        keel_sync()
        t = time.perf_counter()
        async_eval(v)
        keel_sync()
        t = time.perf_counter() - t
        vec_free(v)
        for a in out:
            free_array(a)
        return t / m

    def others(x, y, sync):
        sync()
        t = time.perf_counter()
        for _ in range(m):
            x = x + y
        sync()
        return (time.perf_counter() - t) / m

    for _ in range(ROUNDS):
        times["keel"].append(keel())
        times["torch"].append(others(ta, tb, tsync))
        if cupy is not None:
            times["cupy"].append(others(ca, cb, cupy.cuda.get_current_stream().synchronize))
    print("chain of tiny adds, kept (microseconds each): " + "  ".join(f"{k} {statistics.median(v) * 1e6:.2f}" for k, v in times.items()), flush=True)


def hops():
    """A value that goes from one stream of the device to another and back: microseconds per hop. Beside it the same chain on one stream."""
    if not chosen("hop between two streams"):
        return
    n, m = 256, 400
    ka, ta = both(normal(n))
    kb, tb = both(normal(n))
    gpu = declare("mlx_device_new_type", Handle, INT, INT)(1, 0)
    new_stream = declare("mlx_stream_new_device", Handle, Handle)
    mine = [new_stream(gpu) for _ in range(2)]
    theirs = [torch.cuda.Stream() for _ in range(2)]

    def keel(other):
        out = (Handle * m)()
        x = ka
        for i in range(m):
            out[i] = new_array()
            lib.mlx_add(C.byref(out[i]), x, kb, mine[i % 2 if other else 0])
            x = out[i]
        v = vec(out, m)
        keel_sync()
        t = time.perf_counter()
        async_eval(v)
        for s in mine:
            synchronize(s)
        t = time.perf_counter() - t
        vec_free(v)
        for a in out:
            free_array(a)
        return t / m

    def of_torch(other):
        tsync()
        t = time.perf_counter()
        x = ta
        last = theirs[0]
        for i in range(m):
            s = theirs[i % 2 if other else 0]
            if s is not last:
                s.wait_stream(last)
            with torch.cuda.stream(s):
                x = x + tb
            last = s
        tsync()
        return (time.perf_counter() - t) / m

    ways = {"keel": keel}
    if not ALONE:
        ways["torch"] = of_torch
    if mx is not None and not ALONE:
        ma, mb = mx.array(ta.cpu().numpy()), mx.array(tb.cpu().numpy())
        mlx_streams = [mx.new_stream(mx.gpu) for _ in range(2)]

        def of_mlx(other):
            x = ma
            kept_here = []
            for i in range(m):
                x = mx.add(x, mb, stream=mlx_streams[i % 2 if other else 0])
                kept_here.append(x)
            mx.synchronize(mlx_streams[0])
            t = time.perf_counter()
            mx.async_eval(kept_here)
            for s in mlx_streams:
                mx.synchronize(s)
            return (time.perf_counter() - t) / m

        ways["mlx"] = of_mlx
    for other, name in ((True, "hop between two streams"), (False, "the same on one stream")):
        times = {k: [] for k in ways}
        for _ in range(ROUNDS):
            for k, f in ways.items():
                times[k].append(f(other))
        print(f"{name} (microseconds): " + "  ".join(f"{k} {statistics.median(v) * 1e6:.2f}" for k, v in times.items()), flush=True)


def loads():
    """A safetensors file of 256 MB in the page cache: from opening it to arrays on the device."""
    if not chosen("load 256 MB to the device"):
        return
    import safetensors.numpy
    path = os.path.join(os.environ.get("TMPDIR", "/tmp"), "keel-bench-load.safetensors")
    n, size = 64, 1 << 20
    safetensors.numpy.save_file({f"t{i}": normal(1024, size // 1024) for i in range(n)}, path)
    total = os.path.getsize(path)
    host = declare("mlx_default_cpu_stream_new", Handle)()
    arrays_new, texts_new = declare("mlx_map_string_to_array_new", Handle), declare("mlx_map_string_to_string_new", Handle)
    get = declare("mlx_map_string_to_array_get", INT, PTR, Handle, C.c_char_p)
    load = declare("mlx_load_safetensors", INT, PTR, PTR, C.c_char_p, Handle)
    arrays_free, texts_free = declare("mlx_map_string_to_array_free", INT, Handle), declare("mlx_map_string_to_string_free", INT, Handle)
    names = [f"t{i}".encode() for i in range(n)]

    def keel():
        arrays, texts = arrays_new(), texts_new()
        if load(C.byref(arrays), C.byref(texts), path.encode(), host):
            raise RuntimeError("load: " + last_error())
        out = []
        for name in names:
            a = new_array()
            get(C.byref(a), arrays, name)
            out.append(call("copy", a))
            free_array(a)
        arrays_free(arrays)
        texts_free(texts)
        run(*out)
        keel_sync()
        for a in out:
            free_array(a)

    pinned = torch.empty(total, dtype=torch.uint8, pin_memory=True)

    def read_into_pinned():
        with open(path, "rb", buffering=0) as f:
            done = 0
            view = memoryview(pinned.numpy())
            while done < total:
                part = f.readinto(view[done:done + (8 << 20)])
                device_bytes[done:done + part].copy_(pinned[done:done + part], non_blocking=True)
                done += part
        tsync()

    device_bytes = torch.empty(total, dtype=torch.uint8, device=dev)

    def load_file():
        import safetensors.torch
        safetensors.torch.load_file(path, device="cuda:0")
        tsync()

    p = {"torch.load_file": peer_torch(load_file), "torch.pinned": peer_torch(read_into_pinned)}
    if mx is not None:
        def of_mlx():
            arrays = list(mx.load(path).values())
            mx.eval([mx.abs(a) for a in arrays])
            mx.synchronize()

        p["mlx"] = (of_mlx, mx.synchronize)
    case("load 256 MB to the device", total, keel, p)
    os.unlink(path)
