# SPDX-License-Identifier: Apache-2.0
"""How many packets in flight an identifier is good for: calculated, and simulated.

The paper's: 26 bits that a source writes over a packet, which with the unchanged 3-tuple are
the key of its backpack. The paper does not say how values are chosen. Two ways bracket it: a
counter that all sources share, and random values. All packets are taken to have one 3-tuple,
the worst case, as the paper does; F flows of equal rate make collisions F times as rare.
A new packet collides if one in flight has its value: two packets then share a backpack.

radar's, as it was when this was measured (since then sources find more slots:
docs/design/0029-fast-path.md): the index of a slot in a ring. A source takes the next one, steps over
slots whose packets are in flight, and gives up behind MAX_SKIP of them: its packet is not measured, and
counted. So is one that comes to the end of its CPU's block of slots. Nothing collides.

Times are in packets: one is sent in each unit.
"""

import math

import numpy
from scipy.optimize import brentq

from exp import paper

PAPER_VALUES = 2 ** sum(paper.FUID_BITS.values())
MAX_SKIP = 32  # bpf/backpack/ring.h
MIN_AGE_S = 0.010  # pkg/vnet/datapath: a slot is not used again sooner
LARGEST_BLOCK = 1024  # of slots that a CPU takes at once

SHAPE, LONGEST = 1.5, 30.0  # of the heavy tail (a bounded Pareto distribution): thirty times the mean at most
STEADY = {"constant": 1, "exponential": 10, "heavy tail": LONGEST}  # mean delays until nothing is new any more
KINDS = ("constant", "exponential", "heavy tail")


def _pareto_mean(least):
    ratio = (least / LONGEST) ** SHAPE
    return SHAPE * least**SHAPE / (SHAPE - 1) * (least ** (1 - SHAPE) - LONGEST ** (1 - SHAPE)) / (1 - ratio)


LEAST = brentq(lambda least: _pareto_mean(least) - 1, 0.1, 1)


def draw(kind, count, generator):
    """Delays of mean 1."""
    if kind == "constant":
        return numpy.ones(count)
    if kind == "exponential":
        return generator.exponential(1, count)
    share = generator.random(count) * (1 - (LEAST / LONGEST) ** SHAPE)
    return LEAST * (1 - share) ** (-1 / SHAPE)


def longer(kind, than):
    """The share of delays that are longer than so many means."""
    if kind == "constant":
        return float(than < 1)
    if kind == "exponential":
        return math.exp(-than)
    if than <= LEAST:
        return 1.0
    if than >= LONGEST:
        return 0.0
    return ((LEAST / than) ** SHAPE - (LEAST / LONGEST) ** SHAPE) / (1 - (LEAST / LONGEST) ** SHAPE)


# What formulas say.


def collisions_random(in_flight, values=PAPER_VALUES):
    """The chance that a random value is one of those in flight, whatever their delays (Little)."""
    return -math.expm1(in_flight * math.log1p(-1 / values))


def collisions_counter(kind, in_flight, values=PAPER_VALUES):
    """The chance that a packet is still in flight when the counter comes to its value again."""
    turn, none = values / in_flight, 1.0
    for turns in range(1, math.ceil(LONGEST / turn) + 1):
        none *= 1 - longer(kind, turns * turn)
    return 1 - none


def not_measured(stays, slots, block=LARGEST_BLOCK):
    """The share of packets that find no slot; stays(t) is the share of slots in use for longer than t.

    The cursor meets a slot once in a turn. A packet keeps its slot for as many visits as turns
    pass before it ends, so of 1 + visits one finds the slot free. A packet fails behind
    MAX_SKIP busy slots, or if the last slot of the block is busy when it comes to that. Of
    each packet's slots those that are free were taken: that gives the cursor's speed.
    Slots next to each other are taken to be free independently: true of random delays.
    """
    speed = 1.0  # slots for each packet
    for _ in range(500):
        visits = 0.0
        for turns in range(1, 100_000):
            share = stays(turns * slots / speed)
            visits += share
            if share < 1e-12:
                break
        busy = visits / (1 + visits)
        some = 1 - busy**MAX_SKIP
        faster = some / (1 - busy + some * busy / block)
        if abs(faster - speed) < 1e-9:
            break
        speed = faster
    return max(0.0, 1 - speed * (1 - busy))


# What simulations say.


def simulate_random(kind, in_flight, count, generator, values=PAPER_VALUES):
    """(packets looked at, collisions): random values, among them those of earlier packets."""
    begin = int(in_flight * STEADY[kind]) + 1
    total = begin + count
    value = generator.integers(values, size=total, dtype=numpy.uint32)
    order = numpy.argsort(value, kind="stable")  # of one value: in order of time
    ends = (numpy.arange(total) + in_flight * draw(kind, total, generator))[order]
    value = value[order]
    met = numpy.zeros(total, dtype=bool)
    back = 1
    while True:
        same = value[back:] == value[:-back]
        if not same.any():
            break
        met[back:] |= same & (ends[:-back] > order[back:])
        back += 1
    return count, int(met[order >= begin].sum())


def simulate_counter(kind, in_flight, count, values, generator):
    """The same for a counter."""
    begin = max(values, int(in_flight * STEADY[kind])) + 1
    total = begin + count
    ends = numpy.arange(total) + in_flight * draw(kind, total, generator)
    met = numpy.zeros(total, dtype=bool)
    for back in range(values, begin + values, values):  # nothing stays for longer
        met[back:] |= ends[:-back] > numpy.arange(back, total)
    return count, int(met[begin:].sum())


def block_of(slots, cpus=2):
    """How many slots a CPU takes at once (pkg/vnet/datapath)."""
    block = 16
    while block < LARGEST_BLOCK and block * 8 * cpus <= slots:
        block *= 2
    return block


def simulate_ring(delays, slots, times=None):
    """Which packets find a slot. One CPU; one packet a unit of time, or at these times."""
    free_at, found = [0.0] * slots, []
    block, cursor, end = block_of(slots), 0, 0
    for now, delay in zip(times or range(len(delays)), delays):
        if cursor == end:
            end += block
        least = min(end, cursor + MAX_SKIP)
        while cursor < least and free_at[cursor % slots] > now:
            cursor += 1
        found.append(cursor < least)
        if cursor < least:
            free_at[cursor % slots] = now + delay
            cursor += 1
    return found


def measure(options):
    generator = numpy.random.default_rng(options.seed)
    options.round("identifiers: random values")
    random_points = []
    for in_flight in (10**3, 10**4, 10**5, 10**6, 10**7):
        for kind in KINDS:
            if in_flight * STEADY[kind] > options.pick(1e7, 1e8):
                continue  # takes too long to become steady
            looked, met = simulate_random(kind, in_flight, options.pick(10**6, 2 * 10**7), generator)
            random_points.append({"kind": kind, "in_flight": in_flight, "looked": looked, "met": met, "formula": collisions_random(in_flight)})
    options.round("identifiers: a counter")
    # Only the ratio counts: so a smaller space does.
    values, counter_points = 2**14, []
    for in_flight in (10**6, 3 * 10**6, 10**7, 2 * 10**7, 5 * 10**7):
        for kind in KINDS:
            looked, met = simulate_counter(kind, in_flight * values / PAPER_VALUES, options.pick(10**6, 2 * 10**7), values, generator)
            counter_points.append({"kind": kind, "in_flight": in_flight, "looked": looked, "met": met, "formula": collisions_counter(kind, in_flight)})
    options.round("identifiers: a ring")
    slots, ring_points = 2 ** options.pick(12, 14), []
    for load in (0.25, 0.5, 0.75, 0.9, 1.0, 1.1, 1.25, 1.5, 2.0, *options.pick((), (3.0, 4.0))):
        for kind in KINDS:
            share = ring_share(kind, load, slots, generator)
            low, high = ring_formula(kind, load, block_of(slots))
            ring_points.append({"kind": kind, "load": load, "share": share, "low": low, "high": high})
    return {
        "values": PAPER_VALUES,
        "max_skip": MAX_SKIP,
        "random": random_points,
        "counter": {"values": values, "points": counter_points},
        "ring": {
            "slots": slots,
            "block": block_of(slots),
            "points": ring_points,
            "loads": LOADS,
            **{kind: digits(ring_formula(kind, load, block_of(slots))[0] for load in LOADS) for kind in KINDS},
        },
        "curves": {
            "in_flight": IN_FLIGHT,
            "random": digits(map(collisions_random, IN_FLIGHT)),
            **{kind: digits(collisions_counter(kind, n) for n in IN_FLIGHT) for kind in KINDS[1:]},
        },
        "points": operating_points(),
    }


LOADS = [round(0.04 * i, 2) for i in range(5, 102)]
IN_FLIGHT = [float(f"{10 ** (3 + 0.1 * i):.4g}") for i in range(49)]


def digits(values):
    """Four of them: a plot shows no more."""
    return [float(f"{v:.4g}") for v in values]


def ring_formula(kind, load, block):
    """Least and greatest share not measured; load is packets in flight over slots, and but for the block all that counts.

    Constant delays leave what is in flight side by side: nothing is stepped over while there
    is room, and no slot stays empty when there is none, but for the time in which the cursor
    comes to where slots become free again: a turn at most, MAX_SKIP slots a packet.
    """
    if kind == "constant":
        return (0.0, 0.0) if load <= 1 else (1 - 1 / load, 1 - 1 / (load + 1 / MAX_SKIP))
    share = not_measured(lambda t: longer(kind, t / load), 1.0, block)
    return share, share


def ring_share(kind, load, slots, generator):
    """The share of packets not measured, once the ring is steady."""
    # Whole mean delays: with constant ones it goes round in that time.
    begin = math.ceil(max(10 / load, STEADY[kind])) * round(load * slots)
    delays = load * slots * draw(kind, 2 * begin, generator)
    steady = simulate_ring(delays.tolist(), slots)[begin:]
    return 1 - sum(steady) / len(steady)


def operating_points():
    """Rates and delays (exponential) as they are: what becomes of a packet."""
    rows = []
    for rate in (1e5, 1e6, paper.CAPACITY_RATE_PPS, 1e7, 1e8):
        for delay in (0.001, 0.01, 0.1):
            def stays(t, delay=delay):
                return 1.0 if t < MIN_AGE_S else math.exp(-t / delay)

            rows.append(
                {
                    "rate": rate,
                    "delay_s": delay,
                    "in_flight": rate * delay,
                    "random": collisions_random(rate * delay),
                    "counter": collisions_counter("exponential", rate * delay),
                    "rings": {str(bits): not_measured(stays, 2**bits / rate) for bits in (20, 22, 24)},
                }
            )
    return rows
