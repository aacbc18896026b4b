"""Which equations of a jaxpr run in kernels of ours, and which together: groups between which no values go in a circle.

Equations are of three kinds. *Foreign* ones are XLA's: products, and what has no kernel of ours. *Floating* ones cost
nothing where they are read (other views of the same memory, broadcasts, what is made of constants): every reader has
its own copy of one, XLA and each group, and no memory is written for it. All others are *ours*.

Ours are told apart by their level, which counts how often values go from XLA to us on the longest way to them. Those of
a level are one group: no way between two of them leads through XLA, and there are as many groups as the longest way has
stretches of ours, fewer than which no partition has. What may be on several levels is where it holds least memory. A
group whose parts would wait for each other too long is several.
"""

import enum
import heapq
import itertools

from jax.extend import core

from . import _jaxprs


class Kind(enum.Enum):
    OURS = "ours"
    FLOATING = "floating"
    FOREIGN = "foreign"


# Of the bytes that a function holds at its peak, the part that may wait for a group although it could be freed. As for
# PyTorch (stitch/torch/_partition.py, which says what other parts would cost).
_WAITING_PART = 8
# So many equations at the most are looked at to see whether one is better off elsewhere.
_MOST_MOVED = 256

_VIEWS = ("copy", "expand_dims", "reshape", "squeeze", "stop_gradient", *_jaxprs.OF_TYPES)
"""XLA gives another view of the same memory."""
_MOVES = ("broadcast_in_dim", "rev", "transpose")
"""They cost nothing where a kernel or a product reads them (a convolution's gradient is told by the reversed weights); as
results they are written."""
_OF_CONSTANTS = (
    *_VIEWS, *_MOVES, "add", "and", "convert_element_type", "eq", "ge", "gt", "iota", "le", "lt", "mul", "ne", "neg", "not",
    "or", "select_n", "sub", "xor",
)  # fmt: skip
"""So cheap that every reader makes them of constants anew: masks of attention, zeros."""

_SIMPLE = (
    "abs", "add", "add_any", "and", "clamp", "convert_element_type", "copysign", "eq", "floor", "ge", "gt", "is_finite",
    "le", "lt", "max", "min", "mul", "ne", "neg", "not", "or", "select_n", "sign", "square", "sub", "xor",
)  # fmt: skip
_COSTLY = (
    "cos", "div", "erf", "exp", "exp2", "expm1", "integer_pow", "log", "log1p", "logistic", "pow", "rsqrt", "sin", "sqrt",
    "tan", "tanh",
)  # fmt: skip
# What one of them takes of an element beside a simple one; and what reading an element of memory takes at the least: a GPU
# computes some twenty operations in the time that it needs for a byte.
_COSTS = {**dict.fromkeys(_SIMPLE, 1), **dict.fromkeys(_COSTLY, 8)}
_COST_OF_READING = 48
# The part of what is not read that may be read instead.
_INSTEAD_PART = 4


def is_view(eqn) -> bool:
    """Whether it computes nothing where it is read."""
    return eqn.primitive.name in (*_VIEWS, *_MOVES)


class Graph:
    """The equations of a jaxpr without calls (`_jaxprs.flat`), by number, with who makes what and who reads it."""

    def __init__(self, jaxpr: core.Jaxpr, foreign: set):
        """`foreign`: numbers of the equations that are XLA's."""
        self.jaxpr, self.eqns = jaxpr, jaxpr.eqns
        self.maker = {var: i for i, eqn in enumerate(self.eqns) for var in eqn.outvars}
        self.results = {atom for atom in jaxpr.outvars if isinstance(atom, core.Var)}
        self.sources = [[self.maker[var] for var in _jaxprs.variables(eqn) if var in self.maker] for eqn in self.eqns]
        # What has effects stays in its order, as if each read the one before.
        for one, other in itertools.pairwise(i for i, eqn in enumerate(self.eqns) if eqn.effects):
            self.sources[other].append(one)
        self.readers = [[] for _ in self.eqns]
        for i, sources in enumerate(self.sources):
            for source in dict.fromkeys(sources):
                self.readers[source].append(i)
        self.kinds = [Kind.FOREIGN if i in foreign else Kind.OURS for i in range(len(self.eqns))]
        self._float()
        # Who reads it, and whether it is a result, where floating equations are looked through.
        self.last_readers, self.is_written = [[] for _ in self.eqns], [False] * len(self.eqns)
        for i in reversed(range(len(self.eqns))):
            self.is_written[i] = not self.results.isdisjoint(self.eqns[i].outvars)
            for reader in self.readers[i]:
                if self.kinds[reader] is Kind.FLOATING:
                    self.last_readers[i] += self.last_readers[reader]
                    self.is_written[i] |= self.is_written[reader]
                else:
                    self.last_readers[i].append(reader)

    def _float(self) -> None:
        constant = set()
        for i, eqn in enumerate(self.eqns):
            if self.kinds[i] is Kind.FOREIGN:
                continue
            name = eqn.primitive.name
            if name in _OF_CONSTANTS and all(var in self.maker for var in _jaxprs.variables(eqn)):
                if constant.issuperset(self.sources[i]):
                    constant.add(i)
                    self.kinds[i] = Kind.FLOATING
            if name in _VIEWS or (name in _MOVES and not self._is_ours_to_write(i)):
                self.kinds[i] = Kind.FLOATING

    def _is_ours_to_write(self, i: int) -> bool:
        """Whether a kernel of ours might as well write a result as XLA, which would read what we wrote."""
        is_result = not self.results.isdisjoint(self.eqns[i].outvars)
        return is_result and any(self.kinds[source] is Kind.OURS for source in self.sources[i])

    def roots(self, i: int) -> list[core.Var]:
        """What an equation of ours reads: floating ones are looked through."""
        return self.roots_of(_jaxprs.variables(self.eqns[i]))

    def roots_of(self, variables: list[core.Var]) -> list[core.Var]:
        """What variables are made of by floating equations, or they themselves."""
        found, seen, waiting = {}, set(), list(reversed(variables))
        while waiting:
            var = waiting.pop()
            maker = self.maker.get(var)
            if maker is None or self.kinds[maker] is not Kind.FLOATING:
                found[var] = None
            elif maker not in seen:
                seen.add(maker)
                waiting += reversed(_jaxprs.variables(self.eqns[maker]))
        return list(found)

    def floating_of(self, numbers) -> set:
        """The floating equations that these read, one through another."""
        found, waiting = set(), [source for i in numbers for source in self.sources[i]]
        while waiting:
            i = waiting.pop()
            if self.kinds[i] is Kind.FLOATING and i not in found:
                found.add(i)
                waiting += self.sources[i]
        return found


def _levels(graph: Graph) -> list[int]:
    """The earliest level of each; of a foreign one that of the last group before it."""
    for_us, for_xla, levels = [], [], []
    for i, kind in enumerate(graph.kinds):
        own = max((for_us[s] for s in graph.sources[i]), default=0)
        others = max((for_xla[s] for s in graph.sources[i]), default=0)
        levels.append(others if kind is Kind.FOREIGN else own)
        for_us.append(others + 1 if kind is Kind.FOREIGN else own)
        for_xla.append({Kind.FOREIGN: others, Kind.OURS: own, Kind.FLOATING: others}[kind])
    return levels


def _held_for(graph: Graph, levels: list[int], i: int) -> int | None:
    """The bytes that would be held for an equation of ours on a later level, beyond what is held anyway: what it reads,
    or what those of its level read that only lead to it. None where these are too many."""
    moved, waiting, reads = {i}, [-i], {}
    while waiting:
        if len(moved) > _MOST_MOVED:
            return None
        for var in graph.roots(-heapq.heappop(waiting)):
            maker = graph.maker.get(var)
            if maker is None or maker in moved or graph.is_written[maker]:
                continue  # whoever gave an argument holds it
            readers = graph.last_readers[maker]
            if graph.kinds[maker] is Kind.OURS and levels[maker] == levels[i] and moved.issuperset(readers):
                moved.add(maker)
                heapq.heappush(waiting, -maker)
                reads.pop(var, None)
            elif all(levels[reader] <= levels[i] for reader in readers):
                reads[var] = _jaxprs.bytes_of(var.aval)
    return sum(reads.values())


def _sink(graph: Graph, levels: list[int]) -> None:
    """Puts what holds more memory than it frees where it is first read: weights that are converted, all of them in the
    first group, would wait for the layers that read them."""
    for i in reversed(range(len(graph.eqns))):
        if graph.kinds[i] is not Kind.OURS or graph.is_written[i] or not graph.last_readers[i]:
            continue
        last = min(levels[reader] for reader in graph.last_readers[i])
        if last <= levels[i]:
            continue
        instead = _held_for(graph, levels, i)
        if instead is not None and sum(_jaxprs.bytes_of(var.aval) for var in graph.eqns[i].outvars) >= instead:
            levels[i] = last


def _peak(graph: Graph) -> int:
    """The most bytes that are held at once where every equation is run as it stands."""
    last = {}
    for i, eqn in enumerate(graph.eqns):
        last.update(dict.fromkeys(_jaxprs.variables(eqn), i))
    held = peak = sum(_jaxprs.bytes_of(var.aval) for var in graph.jaxpr.invars)
    for i, eqn in enumerate(graph.eqns):
        held += sum(_jaxprs.bytes_of(var.aval) for var in eqn.outvars)
        peak = max(peak, held)
        over = [v for v in set(_jaxprs.variables(eqn)) if last[v] == i and v in graph.maker and v not in graph.results]
        held -= sum(_jaxprs.bytes_of(var.aval) for var in over)
    return peak


def _components(graph: Graph, numbers: list[int]) -> list[list[int]]:
    """A group's parts that no value connects, each in order."""
    above = {i: i for i in numbers}

    def root(i: int) -> int:
        while above[i] != i:
            above[i] = i = above[above[i]]
        return i

    for i in numbers:
        for var in graph.roots(i):
            if graph.maker.get(var) in above:
                above[root(graph.maker[var])] = root(i)
    parts = {}
    for i in numbers:
        parts.setdefault(root(i), []).append(i)
    return list(parts.values())


def _without_long_waits(graph: Graph, numbers: list[int], limit: int) -> list[list[int]]:
    """A group as several, in each of which no more than `limit` bytes wait for its end although they could be freed, were
    it not for what XLA computes in between. A part that frees no more than it gives has nothing to wait for."""
    foreign = [0, *itertools.accumulate(kind is Kind.FOREIGN for kind in graph.kinds)]
    groups, parts = [], []
    for part in sorted(_components(graph, numbers), key=lambda part: part[-1]):
        start = foreign[part[0]]
        waiting = sum(
            max(0, sum(size for size, last in reads.values() if foreign[last] < start) - given) for reads, given in parts
        )
        if not groups or waiting > limit:
            groups.append([])
            parts = []
        groups[-1] += part
        parts.append(_reads_and_gives(graph, part))
    return [sorted(group) for group in groups]


def _reads_and_gives(graph: Graph, part: list[int]) -> tuple[dict, int]:
    """What a part reads that could be freed (bytes and last reader, by variable), and the bytes that it gives."""
    own, reads, given = set(part), {}, 0
    for i in part:
        for var in graph.roots(i):
            maker = graph.maker.get(var)  # arguments are held by who gave them
            if maker is not None and maker not in own and not graph.is_written[maker]:
                reads[var] = _jaxprs.bytes_of(var.aval), max(graph.last_readers[maker])
        if graph.is_written[i] or not own.issuperset(graph.last_readers[i]):
            given += sum(_jaxprs.bytes_of(var.aval) for var in graph.eqns[i].outvars)
    return reads, given


def groups_of(graph: Graph) -> list[list[int]]:
    """The equations of ours, by group, each in order."""
    levels = _levels(graph)
    _sink(graph, levels)
    by_level = {}
    for i, kind in enumerate(graph.kinds):
        if kind is Kind.OURS:
            by_level.setdefault(levels[i], []).append(i)
    limit = _peak(graph) // _WAITING_PART
    return [part for _, group in sorted(by_level.items()) for part in _without_long_waits(graph, group, limit)]


def recomputed(graph: Graph, reads: list[core.Var], own: set) -> tuple[set, list[core.Var]]:
    """What a reader of many values had better compute again of fewer: an activation's derivative of what went into it.

    `own`: equations of the reader's. Returns the equations, all element by element, and what is still read.
    """
    again, left = set(), dict.fromkeys(reads)
    for var in sorted(reads, key=lambda var: -graph.maker.get(var, -1)):
        found = _cone(graph, var, left, own | again)
        if found is not None:
            again |= found[0]
            del left[var]
            left.update(dict.fromkeys(found[1]))
    return again, list(left)


def _cone(graph: Graph, var, known: dict, own: set) -> tuple[set, list] | None:
    """The equations that make a value of others that are known (`known`, or made by `own`), and of some small ones that are
    not; None where that takes too much."""
    numbers, instead, cost, room = set(), [], 0, _jaxprs.bytes_of(var.aval) // _INSTEAD_PART
    waiting = [var]
    while waiting:
        one = waiting.pop()
        maker = graph.maker.get(one)
        if maker in numbers or maker in own or (one in known and one is not var) or one in instead:
            continue
        if maker is None or graph.kinds[maker] is not Kind.OURS or graph.eqns[maker].primitive.name not in _COSTS:
            room -= _jaxprs.bytes_of(one.aval)
            if one is var or room < 0 or _jaxprs.is_key(one.aval):
                return None
            instead.append(one)
            continue
        numbers.add(maker)
        cost += _COSTS[graph.eqns[maker].primitive.name]
        if cost > _COST_OF_READING:
            return None
        waiting += graph.roots(maker)
    return numbers, instead


def with_fewer_results(function: core.ClosedJaxpr, count: int) -> tuple[core.ClosedJaxpr, core.ClosedJaxpr]:
    """A function that gives less behind its first `count` results, and one that makes what the others were of that."""
    flat = _jaxprs.flat(function, custom=False)
    jaxpr, consts = flat.jaxpr, flat.consts
    results, needed = jaxpr.outvars[:count], jaxpr.outvars[count:]
    graph = Graph(_jaxprs.jaxpr_of(jaxpr.invars, results, jaxpr.eqns, jaxpr.constvars), set())
    variables = [atom for atom in needed if isinstance(atom, core.Var)]
    again, kept = recomputed(graph, graph.roots_of(variables), set())
    made = {graph.maker[var] for var in variables if var in graph.maker}
    floating = {i for i in made if graph.kinds[i] is Kind.FLOATING}
    floating |= graph.floating_of(again | floating)
    eqns = [graph.eqns[i] for i in sorted(again | floating)]
    fewer = _jaxprs.jaxpr_of(jaxpr.invars, [*results, *kept], jaxpr.eqns, jaxpr.constvars)
    rest = _jaxprs.jaxpr_of(kept, needed, eqns)
    return core.ClosedJaxpr(fewer, consts), core.ClosedJaxpr(rest, ())


class Group:
    """Equations that run together: `numbers`, those that it has alone, in order; `again`, copies of other groups'; and what
    it reads."""

    def __init__(self, graph: Graph, numbers: list[int]):
        self.numbers, own = numbers, set(numbers)
        reads = dict.fromkeys(var for i in numbers for var in graph.roots(i) if graph.maker.get(var) not in own)
        self.again, reads = recomputed(graph, list(reads), own)
        own |= self.again
        # In the order of equations, whatever was computed again.
        roots = dict.fromkeys(var for i in sorted(own) for var in graph.roots(i) if graph.maker.get(var) not in own)
        self.reads = [var for var in roots if var in set(reads)]


def _needed(graph: Graph, groups: list[Group]) -> tuple[set, set]:
    """What is read outside of the group that makes it, and the floating equations that XLA computes."""
    inside = {i for group in groups for i in group.numbers}
    outer = [i for i, kind in enumerate(graph.kinds) if i not in inside and kind is not Kind.FLOATING]
    floating = graph.floating_of(outer)
    for var in graph.results:
        maker = graph.maker.get(var)
        if maker is not None and graph.kinds[maker] is Kind.FLOATING:
            floating |= {maker} | graph.floating_of([maker])
    read = {var for i in (*outer, *floating) for var in _jaxprs.variables(graph.eqns[i])} | graph.results
    return read.union(*(group.reads for group in groups)), floating


class Piece:
    """A group as a function: what it reads and gives (keys of random numbers as integers), and its jaxpr."""

    def __init__(self, graph: Graph, group: Group, read: set, bits: _jaxprs.Bits):
        self.group, self._bits, self.reads = group, bits, group.reads
        own = group.again.union(group.numbers)
        numbers = sorted(own | graph.floating_of(own))
        self.gives = [var for i in group.numbers for var in graph.eqns[i].outvars if var in read]
        self.invars = [bits.of(var) for var in self.reads]
        self.outvars = [bits.of(var) for var in self.gives]
        # Without the places in the source: equal layers are equal.
        eqns = [
            core.new_jaxpr_eqn(eqn.invars, eqn.outvars, eqn.primitive, eqn.params, eqn.effects, ctx=eqn.ctx)
            for eqn in map(graph.eqns.__getitem__, numbers)
        ]
        eqns = [*bits.lift(self.reads), *eqns, *bits.lower(self.gives)]
        self.jaxpr = core.ClosedJaxpr(_jaxprs.jaxpr_of(self.invars, self.outvars, eqns), ())

    def called(self, primitive, **params) -> list:
        """The equations that take its place."""
        call = core.new_jaxpr_eqn(self.invars, self.outvars, primitive, params, self.jaxpr.effects)
        return [*self._bits.lower(self.reads), call, *self._bits.lift(self.gives)]


def pieces_of(graph: Graph, groups: list[list[int]]) -> list[Piece]:
    made = [Group(graph, numbers) for numbers in groups]
    read, _ = _needed(graph, made)
    bits = _jaxprs.Bits()
    return [Piece(graph, group, read, bits) for group in made]


def aliases_of(graph: Graph, pieces: list[Piece], piece: Piece, wanted: dict) -> tuple:
    """Which of a piece's results may take the memory of its arguments (argument, result), of those results of the jaxpr
    that want arguments' (by argument): all who read one must come before."""
    if not wanted:
        return ()
    own = set(piece.group.numbers)
    before, waiting = set(), list(own)
    while waiting:
        for source in graph.sources[waiting.pop()]:
            if source not in before:
                before.add(source)
                waiting.append(source)
    floating = {i for i, kind in enumerate(graph.kinds) if kind is Kind.FLOATING}
    pairs = []
    for argument, result in wanted.items():
        read, given = graph.jaxpr.invars[argument], graph.jaxpr.outvars[result]
        if read not in piece.reads or given not in piece.gives or read in graph.results:
            continue
        readers = {i for i, eqn in enumerate(graph.eqns) if read in eqn.invars}
        seen_through = [i for i in readers & floating if graph.is_written[i]]
        readers |= {last for i in readers & floating for last in graph.last_readers[i]}
        readers.update(i for other in pieces if read in other.reads for i in other.group.numbers)
        if not seen_through and readers <= before | own | floating:
            pairs.append((piece.reads.index(read), piece.gives.index(given)))
    return tuple(pairs)


def joined(
    function: core.ClosedJaxpr, graph: Graph, pieces: list[Piece], calls: list[list], others: dict
) -> core.ClosedJaxpr:
    """The function with each piece's equations replaced by others (`calls`), which stand where all they read is made, and
    with `others` in the place of foreign equations, by number."""
    groups = [piece.group for piece in pieces]
    of_group = {i for group in groups for i in group.numbers}
    _, floating = _needed(graph, groups)
    # Equations that stay together, and the numbers of those that they stand for.
    units = [([others.get(i, eqn)], [i]) for i, eqn in enumerate(graph.eqns) if _is_outer(graph, i, of_group, floating)]
    units += [(eqns, piece.group.numbers) for eqns, piece in zip(calls, pieces, strict=True)]
    place = {i: unit for unit, (_, numbers) in enumerate(units) for i in numbers}
    sources = []
    for unit, (_, numbers) in enumerate(units):
        reads = {source for i in numbers for source in graph.sources[i]}
        if unit >= len(units) - len(pieces):
            reads = {graph.maker[var] for var in pieces[unit - len(units)].reads if var in graph.maker}
        sources.append({place[i] for i in reads} - {unit})
    eqns = [eqn for unit in _sorted([max(numbers) for _, numbers in units], sources) for eqn in units[unit][0]]
    return core.ClosedJaxpr(function.jaxpr.replace(eqns=eqns), function.consts)


def _is_outer(graph: Graph, i: int, of_group: set, floating: set) -> bool:
    return i in floating or (i not in of_group and graph.kinds[i] is not Kind.FLOATING)


def _sorted(places: list[int], sources: list[set]) -> list[int]:
    """Units behind all that they read, otherwise by place."""
    waiting = [len(reads) for reads in sources]
    readers = [[] for _ in sources]
    for unit, reads in enumerate(sources):
        for source in reads:
            readers[source].append(unit)
    ready = [(places[unit], unit) for unit, count in enumerate(waiting) if not count]
    heapq.heapify(ready)
    order = []
    while ready:
        _, unit = heapq.heappop(ready)
        order.append(unit)
        for reader in readers[unit]:
            waiting[reader] -= 1
            if not waiting[reader]:
                heapq.heappush(ready, (places[reader], reader))
    assert len(order) == len(sources), "groups of equations go in a circle"
    return order
