#!/usr/bin/env python3
"""Simulates schedules of collectives on 8 to 1,024 ranks, message by message, from measured latencies and bandwidths.

    tools/schedules.py [OPTION ...]     tables of all_sum, all_gather, sum_scatter, send and of a step of data-parallel training
    tools/schedules.py check            the tests of this file

A schedule is a list of rounds, a round a list of messages between ranks. docs/distributed.md (Simulated schedules) has the assumptions.
"""

import argparse
import math
import sys

# Two measured settings (docs/distributed.md, Speed), microseconds and GB/s. `operation` is spent once for each collective, `latency` for each
# round. They follow from two measured times: one of one round, and one of two.
SETTINGS = {
    # Two H200 by NCCL: send of 1 KB 32 us, all_sum of 1 KB 36, of 1 GiB 3,312; products 1.12 ms, a sum 0.91, both 1.60; a step of 46.3 ms.
    "gpus": {"operation": 28, "latency": 4, "bandwidth": 2**30 / (3312 - 36) / 1e3, "products": 1120, "sum": 910, "both": 1600, "step": 46300},
    # Two ranks of Open MPI 4.1.4 on one machine: MPI's sum of 4 bytes 1.2 us, Keel's 4.7; of 1 KB 5.8 and of 16 KB 15.0. Nothing overlaps.
    "mpi": {"operation": 4.7 - 1.2, "latency": 0.6, "bandwidth": (16384 - 1024) / (15.0 - 5.8) / 1e3, "products": 1, "sum": 1, "both": 2, "step": 46300},
}
# Between hosts nothing was measured: 400 Gbit/s for each of a host's links, 8 microseconds.
BETWEEN = {"between_latency": 8, "between_bandwidth": 50}


class Machine:
    """Ranks on hosts: what a message costs, in microseconds."""

    def __init__(self, ranks, per_host, operation, latency, bandwidth, between_latency, between_bandwidth, links, **_):
        if ranks < 1 or per_host < 1 or (ranks > per_host and ranks % per_host):
            raise ValueError(f"{ranks} ranks do not fill hosts of {per_host}")
        self.ranks, self.per_host, self.operation = ranks, min(per_host, ranks), operation
        self.inside = latency, 1 / (bandwidth * 1e3)
        self.between = between_latency, 1 / (between_bandwidth * 1e3)
        self.links = min(links, self.per_host)

    def host(self, rank):
        return rank // self.per_host

    def time(self, rounds, size):
        """When the last rank is done. A message begins when both of its ranks are done with the round before. Messages that leave a host
        in the same round share its links."""
        done = [0.0] * self.ranks
        for messages in rounds:
            leaving = {}
            for a, b, _, _ in messages:
                if self.host(a) != self.host(b):
                    leaving[self.host(a)] = leaving.get(self.host(a), 0) + 1
            now = done[:]
            for a, b, share, _ in messages:
                within = self.host(a) == self.host(b)
                latency, slowness = self.inside if within else self.between
                if not within:
                    slowness *= max(1, leaving[self.host(a)] / self.links)
                end = max(done[a], done[b]) + latency + share * size * slowness
                now[a], now[b] = max(now[a], end), max(now[b], end)
            done = now
        return max(done) + self.operation


# ---- schedules: messages are (from, to, its share of the size, what it does to which part) ----


def ring_of(members, share, first, adds, part=lambda i: i):
    """len(members) - 1 rounds around a ring: in round k member i sends its part i + first - k to the next one, which adds it or keeps it."""
    n = len(members)
    for k in range(n - 1):
        yield [(members[i], members[(i + 1) % n], share, (adds, part((i + first - k) % n))) for i in range(n)]


def beside(generators):
    """Schedules of different ranks, at the same time."""
    for rounds in zip(*generators):
        yield [m for messages in rounds for m in messages]


def ring_scatter(m):
    return ring_of(range(m.ranks), 1 / m.ranks, -1, True)


def ring_sum(m):
    yield from ring_of(range(m.ranks), 1 / m.ranks, 0, True)
    yield from ring_of(range(m.ranks), 1 / m.ranks, 1, False)


def ring_gather(m):
    return ring_of(range(m.ranks), 1, 0, False)


def tree_of(members, share, pieces=1, part=lambda i: i):
    """Up a binary tree and down again, in pieces that follow each other. Rounds are as many as a piece needs, and two more for each piece: a
    rank has two children, of which it hears one after the other."""
    n, depth = len(members), len(members).bit_length() - 1
    level = [(r + 1).bit_length() - 1 for r in range(n)]
    period = 2
    for down in (False, True):
        rounds = 2 * depth + period * (pieces - 1)
        for k in range(rounds):
            messages = []
            for r in range(1, n):
                height = level[r] - 1 if down else depth - level[r]
                piece, late = divmod(k - 2 * height - (r + 1) % 2, period)
                if late == 0 and 0 <= piece < pieces:
                    here, parent = members[r], members[(r - 1) // 2]
                    ends = (parent, here) if down else (here, parent)
                    messages.append((*ends, share / pieces, (not down, part(piece))))
            yield messages


def tree_sum(m, pieces=1):
    return tree_of(range(m.ranks), 1, pieces)


def hosts(m):
    return [range(h, h + m.per_host) for h in range(0, m.ranks, m.per_host)]


def rails(m):
    """The ranks of the same number on all hosts."""
    return [range(i, m.ranks, m.per_host) for i in range(m.per_host)]


def parts_of(rail, m):
    """Part k of those into which the part of a rail is divided, of all."""
    n = m.ranks // m.per_host
    return lambda k, rail=rail: (rail, k, n)


def hierarchical_sum(m):
    """Scatter in each host, sum over hosts on each rail, gather in each host. A part of a host is a rail's, which n_hosts pieces make up."""
    g, n = m.per_host, m.ranks // m.per_host
    whole = lambda i: (i, None, n)
    yield from beside([ring_of(h, 1 / g, -1, True, whole) for h in hosts(m)])
    yield from beside([ring_of(r, 1 / m.ranks, 0, True, parts_of(i, m)) for i, r in enumerate(rails(m))])
    yield from beside([ring_of(r, 1 / m.ranks, 1, False, parts_of(i, m)) for i, r in enumerate(rails(m))])
    yield from beside([ring_of(h, 1 / g, 0, False, whole) for h in hosts(m)])


def hierarchical_tree(m, pieces=1):
    """The same with a tree over the hosts on each rail, of whose part there are so many pieces."""
    g, whole = m.per_host, lambda i: (i, None, pieces)
    yield from beside([ring_of(h, 1 / g, -1, True, whole) for h in hosts(m)])
    yield from beside([tree_of(r, 1 / g, pieces, lambda k, i=i: (i, k, pieces)) for i, r in enumerate(rails(m))])
    yield from beside([ring_of(h, 1 / g, 0, False, whole) for h in hosts(m)])


def hierarchical_scatter(m):
    g, n = m.per_host, m.ranks // m.per_host
    yield from beside([ring_of(h, 1 / g, -1, True, lambda i: (i, None, n)) for h in hosts(m)])
    yield from beside([ring_of(r, 1 / m.ranks, -1, True, parts_of(i, m)) for i, r in enumerate(rails(m))])


def hierarchical_gather(m):
    """On each rail, then in each host all that the rails have."""
    g, n = m.per_host, m.ranks // m.per_host
    yield from beside([ring_of(r, 1, 0, False, parts_of(i, m)) for i, r in enumerate(rails(m))])
    yield from beside([ring_of(h, n, 0, False, lambda i: (i, None, n)) for h in hosts(m)])


def one_message(m, to):
    return [[(0, to, 1, (False, 0))]] if m.ranks > 1 else []


def best_of(schedule):
    """In as many pieces as are best for the size."""
    return lambda m, size: min(m.time(schedule(m, 2**k), size) for k in range(0, 9, 2))


# The size is that of the input of all_sum, sum_scatter and send, and of the part of each rank of all_gather.
COLLECTIVES = {
    "all_sum": {"ring": lambda m, s: m.time(ring_sum(m), s), "tree": best_of(tree_sum), "by host": lambda m, s: m.time(hierarchical_sum(m), s), "by host, tree": best_of(hierarchical_tree)},
    "all_gather": {"ring": lambda m, s: m.time(ring_gather(m), s), "by host": lambda m, s: m.time(hierarchical_gather(m), s)},
    "sum_scatter": {"ring": lambda m, s: m.time(ring_scatter(m), s), "by host": lambda m, s: m.time(hierarchical_scatter(m), s)},
    "send": {"in a host": lambda m, s: m.time(one_message(m, 1), s), "between": lambda m, s: m.time(one_message(m, m.ranks - 1), s)},
}


def overlap_of(products, sum_, both):
    """The speed at which products run while a sum does, of that without: both take `both` together."""
    return min(1.0, max(0.0, (products - (both - sum_)) / sum_))


def training_step(step, backward, buckets, sum_time, speed):
    """Microseconds of a step: each bucket's gradients are ready when its part of the backward pass is done, and sums follow each other. While
    one runs the pass goes on at `speed`."""
    now, left, ready, sums_end = step * (1 - backward), step * backward, 0, 0.0
    each = left / buckets
    for _ in range(buckets):
        work = each
        if sums_end > now:  # a sum runs
            slow = min(work, (sums_end - now) * speed)
            now += slow / speed if slow else sums_end - now
            work -= slow
        now += work
        sums_end = max(now, sums_end) + sum_time
    return max(now, sums_end)


# ---- tables ----


def text_of(size):
    for unit in ("B", "KB", "MB", "GB"):
        if size < 1024 or unit == "GB":
            return f"{size:g} {unit}"
        size /= 1024


def tables(options):
    print(f"{options.setting}: {options.operation:.3g} us an operation, {options.latency:.3g} us and {options.bandwidth:.4g} GB/s in a host of {options.per_host},")
    print(f"{options.between_latency:.3g} us and {options.links} x {options.between_bandwidth:.4g} GB/s between hosts (assumed, not measured, unless given). Microseconds:\n")
    columns = [(name, schedule) for name, ways in COLLECTIVES.items() for schedule in ways]
    print("| ranks | size | " + " | ".join(f"{n}: {s}" for n, s in columns) + " |")
    print("|" + "---|" * (len(columns) + 2))
    for ranks in options.ranks:
        m = Machine(**{**vars(options), "ranks": ranks})
        for size in options.bytes:
            times = [COLLECTIVES[n][s](m, size) for n, s in columns]
            print(f"| {ranks:,} | {text_of(size)} | " + " | ".join(f"{t:,.0f}" if t >= 100 else f"{t:.1f}" for t in times) + " |", flush=True)
    speed = overlap_of(options.products, options.sum, options.both)
    print(f"\nA step of {options.step / 1e3:.1f} ms, two thirds of it backward, {text_of(options.gradients)} of gradients in {options.buckets} buckets; products run at {speed:.2f} of their speed beside a sum:\n")
    print("| ranks | sum of a bucket, us: best schedule | step, ms | times one rank |")
    print("|---|---|---|---|")
    for ranks in options.ranks:
        m = Machine(**{**vars(options), "ranks": ranks})
        times = {s: f(m, options.gradients / options.buckets) for s, f in COLLECTIVES["all_sum"].items()}
        best = min(times, key=times.get)
        step = training_step(options.step, 2 / 3, options.buckets, times[best], speed)
        print(f"| {ranks:,} | {times[best]:,.0f}: {best} | {step / 1e3:.1f} | {ranks * options.step / step:,.4g} |", flush=True)


# ---- tests ----


def pieces_of(part):
    return [(part[0], k) for k in range(part[2])] if isinstance(part, tuple) and part[1] is None else [part[:2] if isinstance(part, tuple) else part]


def moved(m, rounds, begin):
    """What ranks have after the rounds: for each part the ranks whose values are in it. begin: what rank r has at first. No value counts twice, and
    a rank sends and receives at most one message in a round."""
    have = [dict(begin(r)) for r in range(m.ranks)]
    for messages in rounds:
        senders, receivers, news = [a for a, _, _, _ in messages], [b for _, b, _, _ in messages], []
        assert len(set(senders)) == len(senders) and len(set(receivers)) == len(receivers), "two messages at once"
        for a, b, _, (adds, part) in messages:
            for piece in pieces_of(part):
                value, old = have[a][piece], have[b].get(piece, frozenset())
                assert not adds or not value & old, f"rank {b} adds part {piece} twice"
                news.append((b, piece, value | old if adds else value))
        for b, piece, value in news:
            have[b][piece] = value
    return have


def check_moves():
    for ranks, per_host in ((1, 8), (2, 8), (3, 8), (8, 8), (8, 4), (12, 4), (16, 2), (24, 8)):
        m = Machine(**{**vars(default()), "ranks": ranks, "per_host": per_host})
        g, n, every = m.per_host, m.ranks // m.per_host, frozenset(range(ranks))
        flat = lambda r: {p: frozenset([r]) for p in range(ranks)}
        railed = lambda r: {(i, k): frozenset([r]) for i in range(g) for k in range(n)}
        assert all(all(v == every for v in have.values()) for have in moved(m, ring_sum(m), flat))
        assert all(have[r] == every for r, have in enumerate(moved(m, ring_scatter(m), flat)))
        assert all(len(have) == ranks for have in moved(m, ring_gather(m), lambda r: {r: frozenset([r])}))
        assert all(all(v == every for v in have.values()) for have in moved(m, hierarchical_sum(m), railed))
        assert all(have[(r % g, r // g)] == every for r, have in enumerate(moved(m, hierarchical_scatter(m), railed)))
        have = moved(m, hierarchical_gather(m), lambda r: {(r % g, r // g): frozenset([r])})
        assert all(h[(r % g, r // g)] == {r} for h in have for r in range(ranks))
        for pieces in (1, 2, 5):
            one = lambda r: {p: frozenset([r]) for p in range(pieces)}
            assert all(all(v == every for v in have.values()) for have in moved(m, tree_sum(m, pieces), one))
            one = lambda r: {(i, p): frozenset([r]) for i in range(g) for p in range(pieces)}
            assert all(all(v == every for v in have.values()) for have in moved(m, hierarchical_tree(m, pieces), one))


def near(a, b, by=1e-9):
    return abs(a - b) <= by * max(abs(a), abs(b))


def check_times():
    o = default()
    for ranks in (2, 8):
        m = Machine(**{**vars(o), "ranks": ranks})
        for size in (0, 1024, 2**26):
            one = size / ranks / (o.bandwidth * 1e3)
            assert near(m.time(ring_sum(m), size), o.operation + 2 * (ranks - 1) * (o.latency + one))
            assert near(m.time(ring_gather(m), size), o.operation + (ranks - 1) * (o.latency + ranks * one))
            assert near(m.time(ring_scatter(m), size), o.operation + (ranks - 1) * (o.latency + one))
    # What was measured on two GPUs, of which 1 KB and 1 GB are where the numbers come from.
    m = Machine(**{**vars(o), "ranks": 2})
    for size, measured in ((1024, 36), (2**26, 261), (2**30, 3312)):
        assert near(m.time(ring_sum(m), size), measured, 0.1), (size, m.time(ring_sum(m), size))
    assert near(overlap_of(1120, 910, 1600), 430 / 910)
    # Between hosts a ring pays the latency of each round, by host only that of hosts; and messages share the links of a host.
    m = Machine(**{**vars(o), "ranks": 64})
    assert m.time(hierarchical_sum(m), 2**20) < m.time(ring_sum(m), 2**20)
    few, many = (Machine(**{**vars(o), "ranks": 64, "links": k}) for k in (1, 8))
    assert many.time(hierarchical_sum(many), 2**30) < few.time(hierarchical_sum(few), 2**30) / 2
    assert best_of(tree_sum)(m, 4096) < m.time(ring_sum(m), 4096)
    for ways in COLLECTIVES.values():
        for f in ways.values():
            times = [f(Machine(**{**vars(o), "ranks": 16}), size) for size in (1024, 2**20, 2**28)]
            assert times == sorted(times) and times[0] >= o.operation
    alone = Machine(**{**vars(o), "ranks": 1})
    assert all(near(f(alone, 2**20), o.operation) for n, ways in COLLECTIVES.items() for s, f in ways.items() if n != "send")


def check_steps():
    assert near(training_step(900, 2 / 3, 6, 0, 0.5), 900)
    assert near(training_step(900, 2 / 3, 1, 100, 0.5), 1000)  # nothing is left to do beside the only sum
    assert near(training_step(900, 2 / 3, 6, 50, 1), 950)
    assert near(training_step(900, 2 / 3, 6, 50, 0.5), 900 + 5 * 25 + 50)  # each sum takes half its time from the pass
    assert near(training_step(900, 2 / 3, 6, 1000, 0), 300 + 6 * 1100)  # the pass stands still beside each sum
    for bad in (["--ranks", "12"], ["--ranks", "0"], ["--latency", "-1"], ["--bandwidth", "0"], ["--bytes", "x"]):
        try:
            parse([*bad, "--quiet"])
        except (SystemExit, ValueError):
            continue
        raise AssertionError(f"{bad} is taken")


# ---- options ----


class Parser(argparse.ArgumentParser):
    quiet = False

    def error(self, message):
        if self.quiet:
            raise ValueError(message)
        super().error(message)


def numbers(text):
    return [int(x) for x in text.split(",")]


def parse(arguments):
    p = Parser(description=__doc__.splitlines()[0])
    p.quiet = "--quiet" in arguments
    p.add_argument("--quiet", action="store_true", help=argparse.SUPPRESS)
    p.add_argument("--setting", choices=SETTINGS, default="gpus", help="where the numbers come from that are not given")
    p.add_argument("--ranks", type=numbers, default=[8, 16, 64, 256, 1024], help="with commas between them")
    p.add_argument("--bytes", type=numbers, default=[4096, 2**22, 2**28], help="of a collective, with commas between them")
    p.add_argument("--per-host", type=int, default=8, help="ranks of a host")
    for name in ("operation", "latency", "between-latency"):
        p.add_argument(f"--{name}", type=float, help="microseconds")
    for name in ("bandwidth", "between-bandwidth"):
        p.add_argument(f"--{name}", type=float, help="GB/s of a link in one direction")
    p.add_argument("--links", type=int, default=1, help="links of a host to others")
    p.add_argument("--gradients", type=int, default=2**28, help="bytes of a training step")
    p.add_argument("--buckets", type=int, default=8, help="sums of a training step")
    for name in ("products", "sum", "both"):
        p.add_argument(f"--{name}", type=float, help="microseconds: work alone, a sum alone, both together")
    p.add_argument("--step", type=float, help="microseconds of one rank's training step")
    o = p.parse_args(arguments)
    for name, value in {**SETTINGS[o.setting], **BETWEEN}.items():
        if getattr(o, name) is None:
            setattr(o, name, value)
        least = 0 if "latency" in name or name == "operation" else 1e-9
        if not least <= getattr(o, name) < math.inf:
            p.error(f"--{name.replace('_', '-')} {getattr(o, name)} makes no sense")
    if o.buckets < 1 or o.links < 1 or o.gradients < 0 or min(o.bytes) < 0:
        p.error("--buckets and --links must be positive, sizes not negative")
    for ranks in o.ranks:
        try:
            Machine(**{**vars(o), "ranks": ranks})
        except ValueError as e:
            p.error(str(e))
    return o


def default():
    return parse([])


if __name__ == "__main__":
    if sys.argv[1:] == ["check"]:
        check_moves(), check_times(), check_steps()
        print("schedules move what they must, in the times that follow")
    else:
        tables(parse(sys.argv[1:]))
