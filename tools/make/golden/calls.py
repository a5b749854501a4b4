"""Golden values of rows that are calls of their own: moves, makers, products, convolutions, einsum."""
import numpy as np
from scipy import signal

from .table import ALL, Arr, Calls, ENUM, EPS, FLOATS, INTS, round_to, sum_dtype, wide, wrap

t = Calls("rearrange", 20240701)
for d in ALL:
    a, v = t.sample(d, (2, 3)), t.sample(d, (4,))
    one = t.sample(d, (1, 1), False)
    x = a.v
    as_d = lambda y: Arr(y, d)
    t.add('kl_pad(out, in[0], LIST(1, 0), LIST(1, 0), LIST(2, 1), in[1], "constant", s, err)', [a, one],
          as_d(np.pad(x, ((0, 1), (1, 2)), constant_values=one.v.reshape(())[()])))
    for mode in ("edge", "reflect", "symmetric"):
        t.add(f'kl_pad(out, in[0], LIST(0, -1), LIST(1, 0), LIST(0, 2), NULL, "{mode}", s, err)', [a], as_d(np.pad(x, ((1, 0), (0, 2)), mode=mode)))
    t.add("kl_tile(out, in[0], LIST(2, 1, 2), s, err)", [a], as_d(np.tile(x, (2, 1, 2))))
    t.add("kl_tile(out, in[0], LIST(3), s, err)", [a], as_d(np.tile(x, 3)))
    t.add("kl_repeat_axis(out, in[0], 2, 0, s, err)", [a], as_d(np.repeat(x, 2, 0)))
    t.add("kl_repeat(out, in[0], 3, s, err)", [a], as_d(np.repeat(x, 3)))
    t.add("kl_roll(out, in[0], LIST(1, 1), s, err)", [a], as_d(np.roll(x, 2)))
    t.add("kl_roll_axes(out, in[0], LIST(1, -4), LIST(0, 1), s, err)", [a], as_d(np.roll(x, (1, -4), (0, 1))))
    t.add("kl_tril(out, in[0], 0, s, err)", [a], as_d(np.where(np.tri(2, 3, 0, dtype=bool), x, np.zeros((), x.dtype))))
    t.add("kl_triu(out, in[0], 1, s, err)", [a], as_d(np.where(~np.tri(2, 3, 0, dtype=bool), x, np.zeros((), x.dtype))))
    t.add("kl_diag(out, in[0], -1, s, err)", [v], as_d(np.diag(v.v, -1)))
    t.add("kl_diag(out, in[0], 1, s, err)", [a], as_d(np.diag(x, 1)))
    b = t.sample(d, (2, 3, 4), d in INTS)
    t.add("kl_diagonal(out, in[0], 1, 2, 0, s, err)", [b], as_d(np.diagonal(b.v, 1, 2, 0)))
    s = np.trace((b.v.astype(object) if d in INTS else b.v.astype(int) if d == "bool" else wide(b)), 0, 0, 2)
    to = sum_dtype(d)
    t.add(f"kl_diagonal_sum(out, in[0], 0, 0, 2, {ENUM[d]}, s, err)", [b], Arr(wrap(s, to) if d in INTS else s, to), 0 if d in INTS + ["bool"] else 4 * EPS[d])
    t.add("kl_as_strided(out, in[0], LIST(2, 2), (int64_t[]){-1, 2}, 2, 3, s, err)", [a],
          as_d(np.array([[x.reshape(-1)[3 - i + 2 * j] for j in range(2)] for i in range(2)])))
    t.add("kl_unflatten(out, in[0], -1, LIST(3, -1), s, err)", [a], as_d(x.reshape(2, 3, 1)))
    u = t.sample(d, (2, 1), False)
    part, c = wide(Arr(x[::-1, 0::2], d)), wide(u)
    if d == "bool":
        joined = {"add": part | c, "prod": part & c, "max": part | c, "min": part & c}
    elif d in INTS:
        joined = {"add": wrap(part + c, d), "prod": wrap(part * c, d), "max": np.maximum(part, c), "min": np.minimum(part, c)}
    else:
        joined = {"add": part + c, "prod": part * c, "max": np.maximum(part, c), "min": np.minimum(part, c)}
    for name, j in joined.items():
        y = x.copy()
        y[::-1, 0::2] = round_to(j, d)
        t.add(f"kl_slice_update_{name}(out, in[0], in[1], LIST(-1, 0), LIST(-9, 3), LIST(-1, 2), s, err)", [a, u], as_d(y),
              EPS[d] if d == "complex64" and name == "prod" else 0)
    mask = Arr(np.array([[1, 0, 1], [0, 0, 1]]), "bool")
    y = x.copy()
    y[mask.v] = v.v[:3]
    t.add("kl_masked_scatter(out, in[0], in[1], in[2], s, err)", [a, mask, v], as_d(y))
t.write()

t = Calls("create", 20240702)
for d in ALL:
    for n, m, k in ((3, 3, 0), (2, 4, 1), (4, 2, -1), (2, 3, 7)):
        t.add(f"kl_eye(out, {n}, {m}, {k}, {ENUM[d]}, s, err)", [], Arr(np.eye(n, m, k), d))
    t.add(f"kl_identity(out, 2, {ENUM[d]}, s, err)", [], Arr(np.eye(2), d))
    t.add(f"kl_tri(out, 3, 4, 1, {ENUM[d]}, s, err)", [], Arr(np.tri(3, 4, 1), d))
    t.add(f"kl_tri(out, 3, 2, -1, {ENUM[d]}, s, err)", [], Arr(np.tri(3, 2, -1), d))
    t.add(f"kl_number_of_elements(out, in[0], LIST(0, -1), false, {ENUM[d]}, s, err)", [Arr(np.zeros((2, 3, 5)), "int8")], Arr(np.array(10), d))
    for lo, hi, n in ((0, 1, 5), (0.1, 0.7, 7), (5, 2.5, 4), (3, 9, 1)):
        v = np.linspace(lo, hi, n)
        t.add(f"kl_linspace(out, {lo}, {hi}, {n}, {ENUM[d]}, s, err)", [], Arr(v.astype(int) if d in INTS else v, d), EPS["float64"] if d == "float64" else 0)
for name, fn in (("hanning", np.hanning), ("hamming", np.hamming), ("blackman", lambda n: np.maximum(np.blackman(n), 0)), ("bartlett", np.bartlett)):
    for n in (1, 2, 5, 8):
        t.add(f"kl_{name}(out, {n}, s, err)", [], Arr(fn(n) if n > 1 else np.ones(1), "float32"), EPS["float32"])
t.write()

t = Calls("products", 20240703)
for d in ALL:
    a, b = t.sample(d, (2, 3), d in INTS), t.sample(d, (4,), False)
    tol = EPS["complex64"] if d == "complex64" else 0
    mul = lambda f: Arr(f(a.v, b.v), d) if d == "bool" else Arr(wrap(f(wide(a), wide(b)), d), d) if d in INTS else Arr(f(wide(a), wide(b)), d)
    t.add("kl_outer(out, in[0], in[1], s, err)", [a, b], mul(lambda x, y: x.reshape(-1, 1) * y.reshape(1, -1)), tol)
    t.add("kl_kron(out, in[0], in[1], s, err)", [a, b], mul(lambda x, y: (x.reshape(2, 3, 1) * y).reshape(2, 12)), tol)
    t.add("kl_kron(out, in[1], in[0], s, err)", [a, b], mul(lambda x, y: (y.reshape(1, 4, 1) * x.reshape(2, 1, 3)).reshape(2, 12)), tol)
    r = d if d in FLOATS else "float32"
    if d != "complex64":
        for n in (1, 2, 8, 12, 40, 56, 64) if d in FLOATS else (8,):
            h = t.sample(d, (2, n) if n > 1 else (n,), False)
            if d in FLOATS:
                h = Arr(np.round(h.v.astype(np.float64) * 4) / 4, d)  # sums are exact
            size, m = n, np.ones((1, 1))
            for base in (12, 20, 28):
                if n % base == 0:
                    rows = {12: [0x2, 0xAAB, 0x3C8, 0x96E, 0xF20, 0x5BA, 0xC8C, 0x6E6, 0x23C, 0xB96, 0x8F0, 0xE5A],
                            20: [0x933DE, 0x2E3BD, 0x5477B, 0xA0EF7, 0x499EF, 0x637C1, 0xC6BA2, 0x8D764, 0x1AEE8, 0x359F0, 0xFA53, 0x174A7,
                                 0x26D4E, 0x45E9C, 0x83D39, 0xF7A6D, 0xEF4FA, 0xDEDD5, 0xBDF8B, 0x7BF36],
                            28: [0xCD69E7E, 0x9AD7C7D, 0x37AB8FB, 0x6D571F7, 0xD8AE3EF, 0xB3587DF, 0x66B4F3F, 0xB467F43, 0x6ACBE87,
                                 0xD593D8E, 0xAB27B9C, 0x564F7B8, 0xAC9AFF0, 0x5B31FE1, 0x87FB325, 0xFF66CA, 0x1DECD95, 0x39DDB2A,
                                 0x71BF654, 0xE17ECA9, 0xC2FD9D2, 0xFCF1299, 0xFBE2532, 0xF7C4AE4, 0xEF8D549, 0xDF1EA13, 0xBE3D4A6,
                                 0x7E7A94C]}[base]
                    m = np.array([[-1.0 if w >> j & 1 else 1.0 for j in range(base)] for w in rows])
                    assert np.array_equal(m @ m.T, base * np.eye(base))
                    size = n // base
            while size > 1:
                m, size = np.kron(m, np.array([[1.0, 1], [1, -1]])), size // 2
            y = h.v.astype(np.float64) @ m.T
            t.add("kl_hadamard_transform(out, in[0], NULL, s, err)", [h], Arr(y / np.sqrt(n), r), 2 * EPS[r])
            if n == 8:
                t.add("kl_hadamard_transform(out, in[0], &(float){0.25f}, s, err)", [h], Arr(y * 0.25, r))
for d in FLOATS + ["complex64"]:
    a, b, e = t.sample(d, (2, 3), False), t.sample(d, (4, 3), False), t.sample(d, (3, 2, 5), False)
    c = t.sample(d, (4,), False)
    x, y, z, w = wide(a), wide(b), wide(e), wide(c)
    t.add("kl_inner(out, in[0], in[1], s, err)", [a, b], Arr(np.inner(x, y), d), 32 * EPS[d])
    t.add("kl_tensordot(out, in[0], in[1], LIST(1, 0), LIST(0, -2), s, err)", [a, e], Arr(np.tensordot(x, z, ((1, 0), (0, 1))), d), 64 * EPS[d])
    t.add("kl_tensordot_axis(out, in[0], in[1], 1, s, err)", [a, e], Arr(np.tensordot(x, z, 1), d), 64 * EPS[d])
    t.add("kl_tensordot_axis(out, in[0], in[1], 0, s, err)", [a, c], Arr(np.tensordot(x, w, 0), d), 2 * EPS[d])
    bt = Arr(b.v.T, d)
    t.add("kl_addmm(out, in[0], in[1], in[2], 1, 1, s, err)", [c, a, bt], Arr(x @ y.T + w, d), 64 * EPS[d])
    t.add("kl_addmm(out, in[0], in[1], in[2], 0.5f, -2, s, err)", [c, a, bt], Arr(0.5 * (x @ y.T) - 2 * w, d), 64 * EPS[d])
t.write()

# ---- convolutions: correlations of SciPy ----
def spread(a, axes, steps):
    """Zeros between the elements along some axes, so that they are `steps` apart."""
    for axis, step in zip(axes, steps):
        n = a.shape[axis]
        to = np.zeros(a.shape[:axis] + ((n - 1) * step + 1,) + a.shape[axis + 1:])
        to[(slice(None),) * axis + (slice(None, None, step),)] = a
        a = to
    return a


def convolution(x, w, stride, low, high, dilation=None, between=None, groups=1, flip=False):
    n, axes = len(stride), list(range(1, len(stride) + 1))
    x = np.pad(spread(x, axes, between or [1] * n), [(0, 0)] + list(zip(low, high)) + [(0, 0)])
    w = spread(np.flip(w, axes) if flip else w, axes, dilation or [1] * n)
    each, out = x.shape[-1] // groups, []
    for o in range(w.shape[0]):
        first = o // (w.shape[0] // groups) * each
        out.append(np.stack([signal.correlate(b[..., first:first + each], w[o], mode="valid", method="direct")[..., 0] for b in x]))
    return np.stack(out, -1)[(slice(None),) + tuple(slice(None, None, s) for s in stride)]


t = Calls("convolution", 20261123)
lists = lambda *v: ", ".join("{" + f"(const int[]){{{', '.join(map(str, a))}}}, {len(a)}" + "}" if a else "{NULL, 0}" for a in v)
for d in FLOATS:
    tol, quarters = EPS[d], lambda s: Arr(np.round(t.sample(d, s, False).v.astype(np.float64) * 4) / 4, d)  # sums are exact
    for xs, ws, stride, low, high, dilation, between, groups, flip in (
            ((2, 7, 3), (4, 3, 3), [1], [0], [0], [1], [1], 1, False), ((1, 9, 4), (6, 3, 2), [2], [1], [2], [2], [1], 2, False),
            ((2, 4, 2), (2, 2, 2), [1], [2], [1], [1], [3], 1, True), ((1, 5, 6, 2), (3, 3, 2, 2), [1, 2], [1, 0], [1, 1], [1, 1], [1, 1], 1, False),
            ((1, 4, 5, 3), (3, 3, 3, 1), [1, 1], [1, 1], [1, 1], [1, 1], [1, 1], 3, False), ((1, 3, 4, 2), (4, 2, 3, 1), [2, 1], [2, 0], [0, 3], [1, 2], [2, 1], 2, True),
            ((1, 3, 4, 3, 2), (3, 2, 2, 2, 2), [1, 2, 1], [0, 1, 1], [1, 0, 0], [1, 1, 2], [1, 1, 2], 1, False)):
        x, w = quarters(xs), quarters(ws)
        y = convolution(x.v.astype(np.float64), w.v.astype(np.float64), stride, low, high, dilation, between, groups, flip)
        a = [f"(struct kl_conv_list){v}" for v in lists(stride, low, high, dilation, between).replace("}, {", "}|{").split("|")]
        t.add(f"kl_conv_general(out, in[0], in[1], {', '.join(a)}, {groups}, {'true' if flip else 'false'}, s, err)", [x, w], Arr(y, d), tol)
    x, w = quarters((2, 5, 4, 2)), quarters((3, 3, 2, 2))
    v, u = x.v.astype(np.float64), w.v.astype(np.float64)
    t.add("kl_conv(out, in[0], in[1], 2, (int[]){2, 1}, (int[]){1, 0}, (int[]){1, 2}, 1, s, err)", [x, w], Arr(convolution(v, u, [2, 1], [1, 0], [1, 0], [1, 2]), d), tol)
    t.add("kl_conv_transpose(out, in[0], in[1], 2, (int[]){2, 3}, (int[]){1, 0}, (int[]){1, 2}, (int[]){1, 2}, 1, s, err)", [x, w],
          Arr(convolution(v, u, [1, 1], [1, 2], [2, 4], [1, 2], [2, 3], 1, True), d), tol)
    t.add("kl_conv_general(out, in[0], in[1], (struct kl_conv_list){NULL, 0}, (struct kl_conv_list){(const int[]){-1}, 1}, (struct kl_conv_list){(const int[]){0, -1}, 2}, (struct kl_conv_list){NULL, 0}, "
          "(struct kl_conv_list){(const int[]){2}, 1}, 1, false, s, err)", [x, w], Arr(convolution(v[:, 1:, 1:-1], u, [1, 1], [0, 0], [0, 0], [1, 1], [2, 2]), d), tol)
for d in FLOATS:  # the gradient of the weight: each element is what a weight of one element would give, times the cotangent
    quarters = lambda s: Arr(np.round(t.sample(d, s, False).v.astype(np.float64) * 4) / 4, d)
    for xs, ws, stride, low, high, dilation, between, groups, flip in (
            ((2, 7, 3), (3, 3, 1), [2], [1], [2], [1], [1], 3, False), ((2, 5, 8), (8, 3, 4), [1], [2], [1], [2], [1], 2, True),
            ((1, 4, 5, 4), (8, 3, 2, 1), [1, 2], [1, 0], [2, 1], [1, 1], [1, 1], 4, False), ((1, 3, 4, 2), (4, 2, 3, 2), [2, 1], [2, 0], [0, 3], [1, 2], [2, 1], 1, True),
            ((1, 3, 2, 3, 2), (2, 2, 2, 2, 1), [1, 2, 1], [1, 0, 1], [0, 1, 0], [1, 1, 2], [1, 1, 1], 2, False)):
        x, one = quarters(xs), np.zeros(ws)
        v, how = x.v.astype(np.float64), (stride, low, high, dilation, between, groups, flip)
        g = quarters(convolution(v, one, *how).shape)
        y = np.zeros(ws)
        for at in np.ndindex(*ws):
            one[at] = 1
            y[at] = np.sum(convolution(v, one, *how) * g.v.astype(np.float64))
            one[at] = 0
        fields = ", ".join(f".{name} = {{{', '.join(map(str, a))}}}" for name, a in (("stride", stride), ("low", low), ("high", high), ("dilation", dilation), ("input_dilation", between)))
        t.add(f"kl_convolution_backward(out, in[0], in[1], &(struct kl_convolution_params){{.ndim = {len(stride)}, .groups = {groups}, .flip = {'true' if flip else 'false'}, {fields}}}, "
              f"(int[]){{{', '.join(map(str, ws[1:-1]))}}}, s, err)", [x, g], Arr(y, d), EPS[d])
t.write()

t = Calls("einsum", 20261124)
for d in FLOATS + ["complex64", "int32"]:
    quarters = lambda s: Arr(t.sample(d, s, False).v, d) if d == "int32" else Arr(np.round(wide(t.sample(d, s, False)) * 4) / 4, d)
    cube, square, a, b, c, v = quarters((2, 3, 3)), quarters((3, 3)), quarters((2, 3)), quarters((3, 4)), quarters((4, 2)), quarters((3,))
    one, row = quarters((2, 1)), quarters((1, 3))
    for text, ins in (("ij->ji", [a]), ("ii->i", [square]), ("ii", [square]), ("ij->", [a]), ("...ii->...i", [cube]), ("...ij->i...", [cube]), ("i...", [a]), ("ba", [a]), (" a j , k->a k j", [a, v]),
                      ("ij,ij->ij", [a, a]), ("i,j", [v, v]), ("...,...", [a, row])) + ((
                          ("ij,jk", [a, b]), ("ij,jk->ki", [a, b]), ("...j,jk->...k", [cube, b]), ("bij,bkj->bik", [cube, cube]), ("iij,jk->ik", [quarters((2, 2, 3)), b]), ("ij,j", [one, v]),
                          ("...ij,...jk->...ik", [quarters((2, 1, 2, 3)), quarters((3, 3, 2))]), ("ij,jk,kl->il", [a, b, c]), ("ij,jk,kl", [a, b, c]), ("ij,jk,ki->", [a, b, c]), ("ab,ab,c->", [a, a, v])) if d != "int32" else ()):
        y = np.einsum(text, *[wide(x) for x in ins])
        out = "int32" if d == "int32" else d
        t.add(f'kl_einsum(out, "{text}", in, {len(ins)}, s, err)', ins, Arr(y, out), 0 if d == "int32" else 8 * EPS[d])
t.write()
