"""A small chart of a table that bench/cpu_peers.py wrote: one row per group of cases.

    python3 bench/chart.py docs/speed/cpu_peers.md docs/speed/cpu_peers.svg

The bar is the geometric mean over the group of (time of the best peer / time of Keel), on a
logarithmic axis; the thin line goes from the smallest to the largest ratio of the group."""
import math
import re
import sys

GROUPS = [
    ("element-wise, 8 elements", r" 8 (float|bfloat)"),
    ("element-wise, 256 K elements", r" 256 K "),
    ("element-wise, 16 M elements", r" 16 M |^add (transposed|a row)"),
    ("sums, maxima, their places", r"^(sum|max|argmax) of (rows|columns|all) 4096"),
    ("softmax, logsumexp, norms", r"^(softmax|logsumexp) of (rows|columns) 4096|_norm"),
    ("cumulative sums", r"^cumsum of (rows|columns) 4096"),
    ("short rows, middle axes", r"rows of (16|64)|of the middle"),
    ("matrix products, float32", r"^(matmul|\d+ products|vector by).*float32"),
    ("matrix products, 16-bit", r"^(matmul|vector by).*(bfloat16|float16)$"),
    ("gather, scatter", r"^(gather|scatter)"),
    ("sort, top-k, random numbers", r"^(sort|argsort|topk|normal)"),
    ("attention", r"^attention"),
]


def draw(rows, path):
    """rows: (case, ratio); cases without a peer have the ratio 0 and are left out."""
    bars = []
    for label, pattern in GROUPS:
        found = [ratio for name, ratio in rows if ratio > 0 and re.search(pattern, name)]
        if found:
            bars.append((label, math.exp(sum(map(math.log, found)) / len(found)), min(found), max(found), len(found)))
    left, width, line = 190, 640, 18
    low, top = min(0.5, min(b[2] for b in bars)), max(b[3] for b in bars)

    def x(v):
        return left + (width - left - 50) * math.log(v / low) / math.log(top / low)

    height = 44 + line * len(bars)
    with open(path, "w") as f:
        f.write(f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif" font-size="11">\n<rect width="{width}" height="{height}" fill="white"/>\n')
        f.write(f'<text x="{left}" y="14">time of the best peer / time of Keel: mean of the group, range</text>\n')
        for tick in (0.5, 1, 2, 5, 10, 20, 50, 100):
            if low <= tick <= top:
                f.write(f'<line x1="{x(tick):.1f}" y1="22" x2="{x(tick):.1f}" y2="{height - 18}" stroke="{"black" if tick == 1 else "#ccc"}"/><text x="{x(tick):.1f}" y="{height - 6}" text-anchor="middle">{tick:g}</text>\n')
        for i, (label, mean, least, most, n) in enumerate(bars):
            y = 26 + line * i
            a, b = sorted((x(1), x(mean)))
            f.write(f'<text x="{left - 6}" y="{y + 10}" text-anchor="end">{label}</text><rect x="{a:.1f}" y="{y}" width="{max(b - a, 1):.1f}" height="12" fill="{"#2a7f4f" if mean >= 1 else "#b5482f"}"/>')
            f.write(f'<line x1="{x(least):.1f}" y1="{y + 6}" x2="{x(most):.1f}" y2="{y + 6}" stroke="#555"/><text x="{width - 4}" y="{y + 10}" text-anchor="end">{mean:.1f}</text>\n')
        f.write("</svg>\n")


def read(path):
    """The cases of a table and their last columns."""
    rows = []
    for line in open(path):
        cells = [c.strip() for c in line.strip().strip("|").split("|")]
        if len(cells) > 2 and re.fullmatch(r"[0-9.]+", cells[-1]):
            rows.append((cells[0], float(cells[-1])))
    return rows


if __name__ == "__main__":
    draw(read(sys.argv[1]), sys.argv[2])
