"""TRACE, slow and obvious: one loop for each formula of Appendix B, plain Python numbers.

Input: lists of (start, end, text) by video, and a function from two texts to their similarity
in 0..1. Output: the micro percentages. Written from the paper, not from the fast scorer; the
alignment tries every assignment, so keep the smaller side of a video to six utterances, or
give `align=align_by_solver`, which asks a library for the cheapest one of costs made by loops.
"""

import math
from itertools import permutations

from scipy.optimize import linear_sum_assignment

SAME = 1e-9


def pair_cost(ref, gen, tau_time):
    start_gap, end_gap = abs(ref[0] - gen[0]), abs(ref[1] - gen[1])
    tie = math.exp(-end_gap / tau_time) + (1 if ref[2] == gen[2] else 0)
    return -math.exp(-start_gap / tau_time) - SAME * tie


def align_by_solver(refs, gens, tau_time):
    """The cheapest one-to-one assignment, found by scipy."""
    if not refs or not gens:
        return []
    costs = [[pair_cost(ref, gen, tau_time) for gen in gens] for ref in refs]
    return [(int(i), int(j)) for i, j in zip(*linear_sum_assignment(costs), strict=True)]


def align_by_time(refs, gens, tau_time):
    """Every one-to-one assignment is tried; the cheapest wins."""

    def cost(i, j):
        return pair_cost(refs[i], gens[j], tau_time)

    best, best_cost = [], math.inf
    if len(refs) <= len(gens):
        options = (list(enumerate(p)) for p in permutations(range(len(gens)), len(refs)))
    else:
        options = (
            sorted((i, j) for j, i in enumerate(p))
            for p in permutations(range(len(refs)), len(gens))
        )
    for option in options:
        total = math.fsum(cost(i, j) for i, j in option)
        if total < best_cost:
            best, best_cost = option, total
    return best


def may_swap(refs, gens, i, j, i2, j2, rule, tau_win):
    if rule == "new_pairs":
        return (
            abs(refs[i][0] - gens[j2][0]) <= tau_win + SAME
            and abs(refs[i2][0] - gens[j][0]) <= tau_win + SAME
        )
    four = [refs[i][0], refs[i2][0], gens[j][0], gens[j2][0]]
    return all(abs(x - y) <= tau_win + SAME for x in four for y in four)


def swap_while_better(pairs, refs, gens, alike, rule, tau_win, max_passes):
    pairs = sorted(pairs)
    for _ in range(max_passes):
        changed = False
        for a in range(len(pairs)):
            for b in range(a + 1, len(pairs)):
                (i, j), (i2, j2) = pairs[a], pairs[b]
                if not may_swap(refs, gens, i, j, i2, j2, rule, tau_win):
                    continue
                before = alike(refs[i][2], gens[j][2]) + alike(refs[i2][2], gens[j2][2])
                after = alike(refs[i][2], gens[j2][2]) + alike(refs[i2][2], gens[j][2])
                if after - before > SAME:
                    pairs[a], pairs[b] = (i, j2), (i2, j)
                    changed = True
        if not changed:
            break
    return pairs


def overlap_score(gens, j, among, tau_pen):
    total = 0.0
    for k in among:
        if k != j:
            shared = min(gens[j][1], gens[k][1]) - max(gens[j][0], gens[k][0])
            total += max(0.0, shared)
    return math.exp(-total / tau_pen)


def mean_times(f1, values):
    return f1 * sum(values) / len(values) if values else 0.0


def trace_reference(
    references,
    generated,
    alike,
    tau_time=3.0,
    tau_win=5.0,
    tau_pen=1.0,
    alpha=0.5,
    alpha_start=0.4,
    alpha_end=0.4,
    overlap="all",
    swap_rule="four",
    unknown_videos="count",
    max_passes=100,
    align=align_by_time,
):
    """Micro percentages over all videos."""
    videos = list(references)
    if unknown_videos == "count":
        videos += [v for v in generated if v not in references]
    n_ref = n_gen = 0
    semantics, starts, ends, overlaps = [], [], [], []
    for video in videos:
        refs, gens = sorted(references.get(video, [])), sorted(generated.get(video, []))
        n_ref, n_gen = n_ref + len(refs), n_gen + len(gens)
        pairs = align(refs, gens, tau_time)
        pairs = swap_while_better(pairs, refs, gens, alike, swap_rule, tau_win, max_passes)
        pairs = [(i, j) for i, j in pairs if abs(refs[i][0] - gens[j][0]) <= tau_win + SAME]
        for i, j in pairs:
            semantics.append(alike(refs[i][2], gens[j][2]))
            starts.append(math.exp(-abs(refs[i][0] - gens[j][0]) / tau_pen))
            ends.append(math.exp(-abs(refs[i][1] - gens[j][1]) / tau_pen))
        counted = range(len(gens)) if overlap == "all" else [j for _, j in pairs]
        overlaps += [overlap_score(gens, j, counted, tau_pen) for j in counted]
    precision = len(semantics) / n_gen if n_gen else 0.0
    recall = len(semantics) / n_ref if n_ref else 0.0
    f1 = 2 * precision * recall / (precision + recall) if precision + recall else 0.0
    s_a, s_start = mean_times(f1, semantics), mean_times(f1, starts)
    s_end, s_overlap = mean_times(f1, ends), mean_times(f1, overlaps)
    s_t = alpha_start * s_start + alpha_end * s_end + (1 - alpha_start - alpha_end) * s_overlap
    scores = {
        "trace": alpha * s_a + (1 - alpha) * s_t,
        "s_a": s_a,
        "s_t": s_t,
        "s_start": s_start,
        "s_end": s_end,
        "s_overlap": s_overlap,
        "f1": f1,
        "precision": precision,
        "recall": recall,
    }
    return {name: 100 * value for name, value in scores.items()}
