"""einsum_path: the order in which einsum multiplies its operands, found as the library finds it."""

from keel import _core

__all__ = ["einsum_path"]

_MOST_EXACT = 8  # of the library: up to here the order has the fewest multiplications


def _letters(part, ndim):
    """The labels of an operand's axes: letters, and numbers for the axes of the ellipsis, from -1
    for the last one."""
    if "..." not in part:
        return list(part)
    before, _, after = part.partition("...")
    dots = ndim - len(before) - len(after)
    return [*before, *range(-dots, 0), *after]


class _Summation:
    def __init__(self, subscripts, operands):
        left, arrow, right = subscripts.replace(" ", "").partition("->")
        terms = [_letters(part, x.ndim) for part, x in zip(left.split(","), operands)]
        self.extent = {}
        for labels, x in zip(terms, operands):
            for label, n in zip(labels, x.shape):
                self.extent[label] = n if self.extent.get(label, 1) == 1 else self.extent[label]
        dots = {label for labels in terms for label in labels if isinstance(label, int)}
        if arrow:
            self.out = set(right.replace("...", "")) | (dots if "..." in right else set())
        else:
            flat = [label for labels in terms for label in labels]
            self.out = dots | {label for label in flat if flat.count(label) == 1}
        self.all = set(self.extent)
        # An axis of one element whose label has more elsewhere is dropped, and what nobody else
        # needs is summed before anything is multiplied.
        self.terms = [
            {label for label, n in zip(labels, x.shape) if n != 1 or self.extent[label] == 1}
            for labels, x in zip(terms, operands)
        ]
        self.terms = [term & self.needed(self.terms, [i]) for i, term in enumerate(self.terms)]

    def needed(self, terms, some):
        return self.out.union(*(term for i, term in enumerate(terms) if i not in some))

    def elements(self, labels):
        out = 1
        for label in labels:
            out *= self.extent[label]
        return out

    def exact(self):
        """The pairs of sets of operands, as sets of bits, with the fewest multiplications."""
        n, terms = len(self.terms), self.terms
        cost, part_of, labels = {}, {}, {}
        for some in range(1, 1 << n):
            inside = [i for i in range(n) if some >> i & 1]
            labels[some] = set().union(*(terms[i] for i in inside)) & self.needed(terms, inside)
            if len(inside) == 1:
                cost[some] = 0
                continue
            part = (some - 1) & some
            while part:
                rest = some & ~part
                if part >= rest:  # each pair once
                    new = cost[part] + cost[rest] + self.elements(labels[part] | labels[rest])
                    if some not in cost or new < cost[some]:
                        cost[some], part_of[some] = new, part
                part = (part - 1) & some
        steps = []

        def walk(some):
            if some in part_of:
                walk(part_of[some])
                walk(some & ~part_of[some])
                steps.append((part_of[some], some & ~part_of[some]))

        walk((1 << n) - 1)
        return steps

    def greedy(self):
        """At each step the pair whose result is smallest beside its operands."""
        there = {i: (1 << i, term) for i, term in enumerate(self.terms)}
        steps = []
        while len(there) > 1:
            best = None
            for i in there:
                for k in there:
                    if k <= i:
                        continue
                    (_, a), (_, b) = there[i], there[k]
                    outside = self.out.union(*(term for j, (_, term) in there.items() if j not in (i, k)))
                    grows = self.elements((a | b) & outside) - self.elements(a) - self.elements(b)
                    if best is None or grows < best[0]:
                        best = grows, i, k, (a | b) & outside
            _, i, k, kept = best
            steps.append((there[i][0], there[k][0]))
            there[i] = there[i][0] | there.pop(k)[0], kept
        return steps


def einsum_path(subscripts, *operands):
    try:
        _core.einsum(subscripts, *operands)  # says what does not fit; nothing is computed
    except ValueError as error:
        raise ValueError(str(error).replace("mlx_einsum", "einsum_path()", 1)) from None
    operands = [x if isinstance(x, _core.array) else _core.array(x) for x in operands]
    m = _Summation(subscripts, operands)
    n = len(operands)
    steps = m.exact() if n <= _MOST_EXACT else m.greedy()
    left, path, work, scaling = [1 << i for i in range(n)], [], 0, 0
    term = {1 << i: t for i, t in enumerate(m.terms)}
    for a, b in steps:
        path.append(tuple(sorted((left.index(a), left.index(b)))))
        both = term[a] | term[b]
        left = [x for x in left if x not in (a, b)]
        term[a | b] = both & m.out.union(*(term[x] for x in left))
        left.append(a | b)
        work += m.elements(both)
        scaling = max(scaling, len(both))
    if n == 1:
        path, work, scaling = [(0,)], m.elements(m.all), len(m.all)
    return path, (
        f"  Complete contraction:  {subscripts}\n"
        f"         Naive scaling:  {len(m.all)}\n"
        f"     Optimized scaling:  {scaling}\n"
        f"      Naive FLOP count:  {m.elements(m.all) * max(n, 2)}\n"
        f"  Optimized FLOP count:  {2 * work}\n"
    )
