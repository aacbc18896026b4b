"""CUB's and libcu++'s collectives, and cooperative groups, as their documentation's snippets use them."""
import os
import sys

import numpy as np

import corpus as corpora
from nvcc import CUDA, Data, Out, Random, add, compile_ptx

TYPES = {"float": np.float32, "double": np.float64, "int": np.int32, "unsigned": np.uint32, "long long": np.int64,
         "short": np.int16, "unsigned char": np.uint8}
THREADS, ITEMS = 128, 4
COUNT = THREADS * ITEMS
BLOCKS = 3


def short(kind):
    return {"unsigned": "u32", "long long": "s64", "int": "s32", "float": "f32", "double": "f64", "short": "s16",
            "unsigned char": "u8"}[kind]


def kernel(body, parameters, headers="cub/cub.cuh", before=""):
    includes = "".join(f"#include <{h}>\n" for h in headers.split())
    return f"{includes}{before}\nextern \"C\" __global__ void __launch_bounds__({THREADS}) k({parameters}) {{\n{body}\n}}\n"


class Suite:
    """Collects kernels and compiles them together: most of the time goes into reading the headers."""

    def __init__(self, corpus, wanted):
        self.corpus, self.wanted, self.queue = corpus, wanted, []

    def run(self, name, source, arguments, grid=BLOCKS, block=THREADS, shared=0, cluster=None, **more):
        if not self.wanted or any(w in name for w in self.wanted):
            self.queue.append((name, source, (grid, block, arguments, shared, cluster), more))

    def compile(self, rows):
        """PTX of the rows' kernels, which become k0, k1, …"""
        headers, bodies = {}, []
        for i, (_, source, _, _) in enumerate(rows):
            for line in source.splitlines():
                if line.startswith("#include"):
                    headers[line] = None
            body = "\n".join(line for line in source.splitlines() if not line.startswith("#include"))
            bodies.append(body.replace(") k(", f") k{i}("))
        return compile_ptx("\n".join([*headers, *bodies]), includes=[f"{CUDA}/include/cccl"])

    def finish(self, together=16):
        while self.queue:
            rows, self.queue = self.queue[:together], self.queue[together:]
            try:
                ptx = self.compile(rows)
            except RuntimeError as error:
                if len(rows) == 1:
                    print(f"{rows[0][0]}: {str(error)[:1500]}")
                    continue
                self.queue = rows + self.queue
                together = 1
                continue
            for i, (name, _, launch, more) in enumerate(rows):
                add(self.corpus, name, ptx, f"k{i}", *launch, **more)


def per_block(values, function):
    return np.concatenate([np.atleast_1d(function(part)) for part in values.reshape(BLOCKS, -1)])


def tolerance(kind):
    return {"float": (2e-6, 1e-5), "double": (1e-14, 1e-13)}.get(kind, (0.0, 0.0))


def block_reduce(suite):
    for algorithm in ("RAKING", "RAKING_COMMUTATIVE_ONLY", "WARP_REDUCTIONS"):
        for kind in ("float", "int", "double", "long long"):
            x = Random(BLOCKS * COUNT, 1, TYPES[kind])
            body = f"""  using R = cub::BlockReduce<{kind}, {THREADS}, cub::BLOCK_REDUCE_{algorithm}>;
  __shared__ typename R::TempStorage storage;
  {kind} items[{ITEMS}];
  cub::LoadDirectStriped<{THREADS}>(threadIdx.x, x + blockIdx.x * {COUNT}, items);
  {kind} sum = R(storage).Sum(items);
  if (threadIdx.x == 0) y[blockIdx.x] = sum;"""
            suite.run(f"BlockReduce.{algorithm.lower()}.{short(kind)}", kernel(body, f"const {kind}* x, {kind}* y"),
                      [x, Out(per_block(x.array, np.sum).astype(TYPES[kind]), *tolerance(kind))])
    x = Random(BLOCKS * COUNT, 2, np.int32, -1000, 1000)
    body = f"""  using R = cub::BlockReduce<int, {THREADS}>;
  __shared__ typename R::TempStorage storage;
  int v = R(storage).Reduce(x[blockIdx.x * {COUNT} + threadIdx.x], cuda::maximum<>{{}}, n);
  if (threadIdx.x == 0) y[blockIdx.x] = v;"""
    suite.run("BlockReduce.max_of_part", kernel(body, "const int* x, int n, int* y", "cub/cub.cuh cuda/functional"),
              [x, "i32=77", Out(per_block(x.array, lambda p: p[:77].max()))])


def block_scan(suite):
    for algorithm in ("RAKING", "RAKING_MEMOIZE", "WARP_SCANS"):
        for kind in ("float", "int", "long long"):
            x = Random(BLOCKS * COUNT, 3, TYPES[kind])
            for mode, expected in (("Exclusive", lambda p: np.cumsum(p) - p), ("Inclusive", np.cumsum)):
                body = f"""  using S = cub::BlockScan<{kind}, {THREADS}, cub::BLOCK_SCAN_{algorithm}>;
  __shared__ typename S::TempStorage storage;
  {kind} items[{ITEMS}];
  cub::LoadDirectBlocked(threadIdx.x, x + blockIdx.x * {COUNT}, items);
  S(storage).{mode}Sum(items, items);
  cub::StoreDirectBlocked(threadIdx.x, y + blockIdx.x * {COUNT}, items);"""
                suite.run(f"BlockScan.{algorithm.lower()}.{mode.lower()}.{short(kind)}",
                          kernel(body, f"const {kind}* x, {kind}* y"),
                          [x, Out(per_block(x.array, expected).astype(TYPES[kind]),
                                  *((1e-5, 1e-4) if kind == "float" else (0, 0)))])
    x = Random(BLOCKS * COUNT, 4, np.int32, -1000, 1000)
    body = f"""  using S = cub::BlockScan<int, {THREADS}>;
  __shared__ typename S::TempStorage storage;
  int items[{ITEMS}];
  cub::LoadDirectBlocked(threadIdx.x, x + blockIdx.x * {COUNT}, items);
  S(storage).InclusiveScan(items, items, cuda::maximum<>{{}});
  cub::StoreDirectBlocked(threadIdx.x, y + blockIdx.x * {COUNT}, items);"""
    suite.run("BlockScan.max", kernel(body, "const int* x, int* y", "cub/cub.cuh cuda/functional"),
              [x, Out(per_block(x.array, np.maximum.accumulate))])


def block_sort(suite):
    for kind in ("int", "unsigned", "float", "long long", "short", "double", "unsigned char"):
        dtype = np.dtype(TYPES[kind])
        low, high = (None, None) if dtype.kind == "f" else (0, 250) if dtype == np.uint8 else (-3000, 3000) \
            if dtype.kind == "i" else (0, 100000)
        x = Random(BLOCKS * COUNT, 5, dtype, low, high)
        for mode, flip in (("Sort", False), ("SortDescending", True)):
            body = f"""  using S = cub::BlockRadixSort<{kind}, {THREADS}, {ITEMS}>;
  __shared__ typename S::TempStorage storage;
  {kind} items[{ITEMS}];
  cub::LoadDirectBlocked(threadIdx.x, x + blockIdx.x * {COUNT}, items);
  S(storage).{mode}(items);
  cub::StoreDirectBlocked(threadIdx.x, y + blockIdx.x * {COUNT}, items);"""
            suite.run(f"BlockRadixSort.{mode.lower()}.{short(kind)}", kernel(body, f"const {kind}* x, {kind}* y"),
                      [x, Out(per_block(x.array, lambda p: np.sort(p)[::-1] if flip else np.sort(p)))])
    x = Random(BLOCKS * COUNT, 6, np.int32, 0, 100)
    body = f"""  using S = cub::BlockRadixSort<int, {THREADS}, {ITEMS}, int>;
  __shared__ typename S::TempStorage storage;
  int items[{ITEMS}], values[{ITEMS}];
  cub::LoadDirectBlocked(threadIdx.x, x + blockIdx.x * {COUNT}, items);
  for (int i = 0; i < {ITEMS}; ++i) values[i] = threadIdx.x * {ITEMS} + i;
  S(storage).SortBlockedToStriped(items, values);
  cub::StoreDirectStriped<{THREADS}>(threadIdx.x, y + blockIdx.x * {COUNT}, values);"""
    suite.run("BlockRadixSort.pairs_stable", kernel(body, "const int* x, int* y"),
              [x, Out(per_block(x.array, lambda p: np.argsort(p, kind="stable")).astype(np.int32))])
    for kind in ("int", "float", "double"):
        x = Random(BLOCKS * COUNT, 7, TYPES[kind], -900, 900)
        body = f"""  using S = cub::BlockMergeSort<{kind}, {THREADS}, {ITEMS}>;
  __shared__ typename S::TempStorage storage;
  {kind} items[{ITEMS}];
  cub::LoadDirectBlocked(threadIdx.x, x + blockIdx.x * {COUNT}, items);
  S(storage).Sort(items, cuda::std::less<>{{}});
  cub::StoreDirectBlocked(threadIdx.x, y + blockIdx.x * {COUNT}, items);"""
        suite.run(f"BlockMergeSort.{short(kind)}", kernel(body, f"const {kind}* x, {kind}* y",
                                                          "cub/cub.cuh cuda/std/functional"),
                  [x, Out(per_block(x.array, np.sort))])
    x = Random(BLOCKS * COUNT, 8, np.int32, 0, 16)
    body = f"""  using S = cub::BlockRadixRankMatch<{THREADS}, 4, false>;
  __shared__ typename S::TempStorage storage;
  unsigned items[1]; int ranks[1];
  items[0] = x[blockIdx.x * {THREADS} + threadIdx.x];
  S(storage).RankKeys(items, ranks, cub::BFEDigitExtractor<unsigned>(0, 4));
  y[blockIdx.x * {THREADS} + threadIdx.x] = ranks[0];"""
    ranks = np.concatenate([np.argsort(np.argsort(p, kind="stable"), kind="stable")
                            for p in x.array[:BLOCKS * THREADS].reshape(BLOCKS, -1)]).astype(np.int32)
    suite.run("BlockRadixRankMatch", kernel(body, "const int* x, int* y"), [x, Out(ranks)])


def block_moves(suite):
    x = Random(BLOCKS * COUNT, 9, np.float32)
    for load in ("DIRECT", "STRIPED", "VECTORIZE", "TRANSPOSE", "WARP_TRANSPOSE", "WARP_TRANSPOSE_TIMESLICED"):
        body = f"""  using L = cub::BlockLoad<float, {THREADS}, {ITEMS}, cub::BLOCK_LOAD_{load}>;
  using S = cub::BlockStore<float, {THREADS}, {ITEMS}, cub::BLOCK_STORE_{load}>;
  __shared__ union {{ typename L::TempStorage load; typename S::TempStorage store; }} storage;
  float items[{ITEMS}];
  L(storage.load).Load(x + blockIdx.x * {COUNT}, items);
  __syncthreads();
  for (float& item : items) item *= 2;
  S(storage.store).Store(y + blockIdx.x * {COUNT}, items);"""
        suite.run(f"BlockLoadStore.{load.lower()}", kernel(body, "float* x, float* y"), [x, Out(x.array * 2)])
    for mode, perm in (("StripedToBlocked", None), ("BlockedToStriped", None), ("BlockedToWarpStriped", None)):
        body = f"""  using E = cub::BlockExchange<float, {THREADS}, {ITEMS}>;
  __shared__ typename E::TempStorage storage;
  float items[{ITEMS}];
  for (int i = 0; i < {ITEMS}; ++i) items[i] = x[blockIdx.x * {COUNT} + threadIdx.x * {ITEMS} + i];
  E(storage).{mode}(items, items);
  for (int i = 0; i < {ITEMS}; ++i) y[blockIdx.x * {COUNT} + threadIdx.x * {ITEMS} + i] = items[i];"""
        thread, item = np.divmod(np.arange(COUNT), ITEMS)
        if mode == "StripedToBlocked":  # blocked position p holds striped element p
            source = (np.arange(COUNT) % THREADS) * ITEMS + np.arange(COUNT) // THREADS
        elif mode == "BlockedToStriped":
            source = item * THREADS + thread
        else:
            source = thread // 32 * 32 * ITEMS + item * 32 + thread % 32
        suite.run(f"BlockExchange.{mode}", kernel(body, "const float* x, float* y"),
                  [x, Out(per_block(x.array, lambda p: p[source]))])
    i = Random(BLOCKS * COUNT, 10, np.int32, 0, 4)
    body = f"""  using D = cub::BlockDiscontinuity<int, {THREADS}>;
  __shared__ typename D::TempStorage storage;
  int items[{ITEMS}], flags[{ITEMS}];
  cub::LoadDirectBlocked(threadIdx.x, x + blockIdx.x * {COUNT}, items);
  D(storage).FlagHeads(flags, items, cuda::std::not_equal_to<>{{}});
  cub::StoreDirectBlocked(threadIdx.x, y + blockIdx.x * {COUNT}, flags);"""
    suite.run("BlockDiscontinuity.heads", kernel(body, "const int* x, int* y", "cub/cub.cuh cuda/std/functional"),
              [i, Out(per_block(i.array, lambda p: np.concatenate([[1], p[1:] != p[:-1]])).astype(np.int32))])
    body = f"""  using D = cub::BlockAdjacentDifference<int, {THREADS}>;
  __shared__ typename D::TempStorage storage;
  int items[{ITEMS}], out[{ITEMS}];
  cub::LoadDirectBlocked(threadIdx.x, x + blockIdx.x * {COUNT}, items);
  D(storage).SubtractLeft(items, out, cuda::std::minus<>{{}});
  cub::StoreDirectBlocked(threadIdx.x, y + blockIdx.x * {COUNT}, out);"""
    suite.run("BlockAdjacentDifference.left", kernel(body, "const int* x, int* y", "cub/cub.cuh cuda/std/functional"),
              [i, Out(per_block(i.array, lambda p: np.concatenate([[p[0]], np.diff(p)])).astype(np.int32))])
    body = f"""  using S = cub::BlockShuffle<int, {THREADS}>;
  __shared__ typename S::TempStorage storage;
  int v = -1;
  S(storage).Offset(x[blockIdx.x * {COUNT} + threadIdx.x], v, 5);
  y[blockIdx.x * {THREADS} + threadIdx.x] = v;"""
    suite.run("BlockShuffle.offset", kernel(body, "const int* x, int* y", "cub/block/block_shuffle.cuh"),
              [i, Out(per_block(i.array, lambda p: np.concatenate([p[5:THREADS], [-1] * 5])).astype(np.int32))])
    for algorithm in ("ATOMIC", "SORT"):
        h = Random(BLOCKS * COUNT, 11, np.uint8, 0, 64)
        body = f"""  using H = cub::BlockHistogram<unsigned char, {THREADS}, {ITEMS}, 64, cub::BLOCK_HISTO_{algorithm}>;
  __shared__ typename H::TempStorage storage;
  __shared__ unsigned bins[64];
  unsigned char items[{ITEMS}];
  cub::LoadDirectBlocked(threadIdx.x, x + blockIdx.x * {COUNT}, items);
  H(storage).Histogram(items, bins);
  __syncthreads();
  if (threadIdx.x < 64) y[blockIdx.x * 64 + threadIdx.x] = bins[threadIdx.x];"""
        suite.run(f"BlockHistogram.{algorithm.lower()}", kernel(body, "const unsigned char* x, unsigned* y"),
                  [h, Out(per_block(h.array, lambda p: np.bincount(p, minlength=64)).astype(np.uint32))])
    lengths = Random(BLOCKS * THREADS, 12, np.uint32, 1, 4)
    values = Random(BLOCKS * THREADS, 13, np.int32, 0, 1000)
    body = f"""  using D = cub::BlockRunLengthDecode<int, {THREADS}, 1, {ITEMS}>;
  __shared__ typename D::TempStorage storage;
  int value[1] = {{v[blockIdx.x * {THREADS} + threadIdx.x]}};
  unsigned length[1] = {{n[blockIdx.x * {THREADS} + threadIdx.x]}};
  unsigned total = 0;
  D decode(storage, value, length, total);
  int items[{ITEMS}];
  decode.RunLengthDecode(items, 0);
  for (int i = 0; i < {ITEMS}; ++i) {{
    unsigned at = threadIdx.x * {ITEMS} + i;
    y[blockIdx.x * {COUNT} + at] = at < total ? items[i] : -1;
  }}"""
    decoded = []
    for v, n in zip(values.array.reshape(BLOCKS, -1), lengths.array.reshape(BLOCKS, -1)):
        run = np.repeat(v, n)[:COUNT]
        decoded.append(np.concatenate([run, np.full(COUNT - len(run), -1, np.int32)]))
    suite.run("BlockRunLengthDecode", kernel(body, "const int* v, const unsigned* n, int* y"),
              [values, lengths, Out(np.concatenate(decoded).astype(np.int32))])


def warps(suite):
    x = Random(BLOCKS * THREADS, 14, np.int32, -500, 500)
    rows = x.array.reshape(-1, 32)
    for width in (32, 16, 8):
        part = x.array.reshape(-1, width)
        body = f"""  using R = cub::WarpReduce<int, {width}>;
  __shared__ typename R::TempStorage storage[{THREADS // width}];
  int at = blockIdx.x * {THREADS} + threadIdx.x;
  int sum = R(storage[threadIdx.x / {width}]).Sum(x[at]);
  if (threadIdx.x % {width} == 0) y[at / {width}] = sum;"""
        suite.run(f"WarpReduce.{width}", kernel(body, "const int* x, int* y"), [x, Out(part.sum(1).astype(np.int32))])
        body = f"""  using R = cub::WarpScan<int, {width}>;
  __shared__ typename R::TempStorage storage[{THREADS // width}];
  int at = blockIdx.x * {THREADS} + threadIdx.x, v;
  R(storage[threadIdx.x / {width}]).ExclusiveScan(x[at], v, -1000, cuda::maximum<>{{}});
  y[at] = v;"""
        before = np.concatenate([np.full((len(part), 1), -1000), part[:, :-1]], 1)
        suite.run(f"WarpScan.max.{width}", kernel(body, "const int* x, int* y", "cub/cub.cuh cuda/functional"),
                  [x, Out(np.maximum.accumulate(before, 1).astype(np.int32))])
    body = f"""  using R = cub::WarpReduce<int>;
  __shared__ typename R::TempStorage storage[{THREADS // 32}];
  int at = blockIdx.x * {THREADS} + threadIdx.x;
  int sum = R(storage[threadIdx.x / 32]).HeadSegmentedSum(x[at], threadIdx.x % 8 == 0);
  y[at] = threadIdx.x % 8 == 0 ? sum : 0;"""
    sums = np.zeros_like(x.array).reshape(-1, 8)
    sums[:, 0] = x.array.reshape(-1, 8).sum(1)
    suite.run("WarpReduce.head_segmented", kernel(body, "const int* x, int* y"), [x, Out(sums.reshape(-1))])
    many = Random(BLOCKS * COUNT, 15, np.float32)
    body = f"""  using S = cub::WarpMergeSort<float, {ITEMS}, 32>;
  __shared__ typename S::TempStorage storage[{THREADS // 32}];
  float items[{ITEMS}];
  int at = (blockIdx.x * {THREADS} + threadIdx.x) * {ITEMS};
  for (int i = 0; i < {ITEMS}; ++i) items[i] = x[at + i];
  S(storage[threadIdx.x / 32]).Sort(items, cuda::std::less<>{{}});
  for (int i = 0; i < {ITEMS}; ++i) y[at + i] = items[i];"""
    suite.run("WarpMergeSort", kernel(body, "const float* x, float* y", "cub/cub.cuh cuda/std/functional"),
              [many, Out(np.sort(many.array.reshape(-1, 32 * ITEMS), 1).reshape(-1))])
    for algorithm in ("SMEM", "SHUFFLE"):
        body = f"""  using E = cub::WarpExchange<float, {ITEMS}, 32, cub::WARP_EXCHANGE_{algorithm}>;
  __shared__ typename E::TempStorage storage[{THREADS // 32}];
  float items[{ITEMS}];
  int at = (blockIdx.x * {THREADS} + threadIdx.x) * {ITEMS};
  for (int i = 0; i < {ITEMS}; ++i) items[i] = x[at + i];
  E(storage[threadIdx.x / 32]).BlockedToStriped(items, items);
  for (int i = 0; i < {ITEMS}; ++i) y[at + i] = items[i];"""
        if algorithm == "SHUFFLE":
            body = body.replace(f"float, {ITEMS}, 32", f"float, 32, 32").replace(f"[{ITEMS}]", "[32]") \
                .replace(f"* {ITEMS};", "* 32;").replace(f"i < {ITEMS}", "i < 32")
            big = Random(BLOCKS * THREADS * 32, 16, np.float32)
            suite.run("WarpExchange.shuffle", kernel(body, "const float* x, float* y"),
                      [big, Out(big.array.reshape(-1, 32, 32).transpose(0, 2, 1).reshape(-1))])
        else:
            suite.run("WarpExchange.smem", kernel(body, "const float* x, float* y"),
                      [many, Out(many.array.reshape(-1, ITEMS, 32).transpose(0, 2, 1).reshape(-1))])


def device_agents(suite):
    """What the device-wide algorithms launch: their agents, with decoupled look-back between blocks."""
    tiles, count = 6, 6 * COUNT - 37
    x = Random(count, 17, np.int32, -50, 50)
    words = np.zeros((tiles + 32, 2), np.int32)  # 64-bit descriptors: status in the low half's first byte, then value
    words[32:, 0] = 99  # SCAN_TILE_INVALID; the 32 before the first are SCAN_TILE_OOB
    body = f"""  using Policy = cub::AgentScanPolicy<{THREADS}, {ITEMS}, int, cub::BLOCK_LOAD_TRANSPOSE, cub::LOAD_DEFAULT,
      cub::BLOCK_STORE_TRANSPOSE, cub::BLOCK_SCAN_WARP_SCANS, cub::detail::MemBoundScaling<{THREADS}, {ITEMS}, int>>;
  using Agent = cub::detail::scan::AgentScan<Policy, const int*, int*, cuda::std::plus<>, int, int, int>;
  __shared__ typename Agent::TempStorage storage;
  cub::ScanTileState<int> state;
  state.Init({tiles}, states, 0);
  Agent(storage, x, y, cuda::std::plus<>{{}}, 0).ConsumeRange(n, state, 0);"""
    suite.run("DeviceScan.decoupled_lookback", kernel(body, "const int* x, int* y, int n, void* states",
                                                      "cub/cub.cuh cuda/std/functional"),
              [x, Out((np.cumsum(x.array) - x.array).astype(np.int32)), f"i32={count}", Data(words.reshape(-1))],
              grid=tiles)
    body = f"""  using Policy = cub::AgentReducePolicy<{THREADS}, {ITEMS}, float, 4, cub::BLOCK_REDUCE_WARP_REDUCTIONS,
      cub::LOAD_LDG, cub::detail::MemBoundScaling<{THREADS}, {ITEMS}, float>>;
  using Agent = cub::detail::reduce::AgentReduce<Policy, const float*, float*, int, cuda::std::plus<>, float>;
  __shared__ typename Agent::TempStorage storage;
  cub::GridEvenShare<int> share;
  share.template DispatchInit(n, gridDim.x, {COUNT});
  share.template BlockInit<{COUNT}, cub::GRID_MAPPING_RAKE>();
  float sum = Agent(storage, x, cuda::std::plus<>{{}}).ConsumeTiles(share);
  if (threadIdx.x == 0) y[blockIdx.x] = sum;"""
    f = Random(BLOCKS * 4 * COUNT, 18, np.float32)
    suite.run("DeviceReduce.agent", kernel(body, "const float* x, float* y, int n", "cub/cub.cuh cuda/std/functional"),
              [f, Out(f.array.reshape(4, BLOCKS, -1).sum((0, 2), dtype=np.float64).astype(np.float32), 1e-5, 1e-4),
               f"i32={len(f.array)}"])
    body = """  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) atomicAdd(&bins[x[i] >> 4], 1u);"""
    h = Random(2000, 19, np.uint8, 0, 256)
    suite.run("histogram.global_atomics", kernel(body, "const unsigned char* x, unsigned n, unsigned* bins"),
              [h, "u32=2000", Out(np.bincount(h.array >> 4, minlength=16).astype(np.uint32), start="zero")], grid=16)


def libcu(suite):
    x = Random(BLOCKS * COUNT, 20, np.float32)
    body = f"""  namespace cg = cooperative_groups;
  auto block = cg::this_thread_block();
  __shared__ float tile[{COUNT}];
  __shared__ cuda::barrier<cuda::thread_scope_block> ready;
  if (block.thread_rank() == 0) init(&ready, block.size());
  block.sync();
  cuda::memcpy_async(block, tile, x + blockIdx.x * {COUNT}, cuda::aligned_size_t<16>(sizeof(tile)), ready);
  ready.arrive_and_wait();
  for (int i = block.thread_rank(); i < {COUNT}; i += block.size()) y[blockIdx.x * {COUNT} + i] = tile[{COUNT} - 1 - i];"""
    reverse = per_block(x.array, lambda p: p[::-1])
    suite.run("barrier.memcpy_async", kernel(body, "const float* x, float* y", "cooperative_groups.h cuda/barrier"),
              [x, Out(reverse)])
    body = f"""  namespace cg = cooperative_groups;
  auto block = cg::this_thread_block();
  __shared__ float tile[2][{THREADS}];
  __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> state;
  auto pipe = cuda::make_pipeline(block, &state);
  const float* from = x + blockIdx.x * {COUNT};
  float sum = 0;
  pipe.producer_acquire();
  cuda::memcpy_async(block, tile[0], from, sizeof(float) * {THREADS}, pipe);
  pipe.producer_commit();
  for (int i = 0; i < {ITEMS}; ++i) {{
    if (i + 1 < {ITEMS}) {{
      pipe.producer_acquire();
      cuda::memcpy_async(block, tile[(i + 1) % 2], from + (i + 1) * {THREADS}, sizeof(float) * {THREADS}, pipe);
      pipe.producer_commit();
    }}
    pipe.consumer_wait();
    sum += tile[i % 2][({THREADS} - 1) - threadIdx.x];
    pipe.consumer_release();
  }}
  y[blockIdx.x * {THREADS} + threadIdx.x] = sum;"""
    suite.run("pipeline.two_stages", kernel(body, "const float* x, float* y", "cooperative_groups.h cuda/pipeline"),
              [x, Out(per_block(x.array, lambda p: p.reshape(ITEMS, THREADS).sum(0)[::-1]), 1e-6, 1e-6)])
    body = f"""  namespace cg = cooperative_groups;
  auto tile = cg::tiled_partition<16>(cg::this_thread_block());
  int at = blockIdx.x * {COUNT} + threadIdx.x;
  float best = cg::reduce(tile, x[at], cg::greater<float>());
  int sum = cg::reduce(tile, int(x[at] * 100), cg::plus<int>());
  float before = cg::exclusive_scan(tile, x[at]);
  y[blockIdx.x * {THREADS} + threadIdx.x] = best + sum;
  z[blockIdx.x * {THREADS} + threadIdx.x] = before;"""
    p = x.array.reshape(BLOCKS, -1)[:, :THREADS].reshape(-1, 16)
    y = np.repeat(p.max(1) + (p * np.float32(100)).astype(np.int32).sum(1).astype(np.float32), 16).astype(np.float32)
    suite.run("cooperative_groups.tiles", kernel(body, "const float* x, float* y, float* z",
                                                 "cooperative_groups.h cooperative_groups/reduce.h cooperative_groups/scan.h"),
              [x, Out(y, 1e-6, 1e-5), Out((np.cumsum(p, 1) - p).reshape(-1).astype(np.float32), 1e-5, 1e-5)])
    body = f"""  namespace cg = cooperative_groups;
  auto active = cg::coalesced_threads();
  int at = blockIdx.x * {COUNT} + threadIdx.x;
  y[blockIdx.x * {THREADS} + threadIdx.x] = -1;
  if (x[at] > 0) {{
    auto some = cg::coalesced_threads();
    auto same = cg::labeled_partition(some, int(x[at]));
    y[blockIdx.x * {THREADS} + threadIdx.x] = some.size() * 100 + same.size();
  }}"""
    rows = x.array.reshape(BLOCKS, -1)[:, :THREADS].reshape(-1, 32)
    expected = np.full(rows.shape, -1, np.int32)
    for r, row in enumerate(rows):
        on = row > 0
        for lane in np.nonzero(on)[0]:
            expected[r, lane] = on.sum() * 100 + (on & (row.astype(np.int32) == int(row[lane]))).sum()
    suite.run("cooperative_groups.coalesced", kernel(body, "const float* x, int* y", "cooperative_groups.h"),
              [x, Out(expected.reshape(-1))])
    body = f"""  namespace cg = cooperative_groups;
  auto cluster = cg::this_cluster();
  __shared__ float part;
  using R = cub::BlockReduce<float, {THREADS}>;
  __shared__ typename R::TempStorage storage;
  float sum = R(storage).Sum(x[blockIdx.x * {THREADS} + threadIdx.x]);
  if (threadIdx.x == 0) part = sum;
  cluster.sync();
  if (threadIdx.x < cluster.num_blocks()) y[blockIdx.x * 4 + threadIdx.x] = *cluster.map_shared_rank(&part, threadIdx.x);
  cluster.sync();"""
    c = Random(8 * THREADS, 21, np.float32)
    sums = c.array.reshape(2, 4, THREADS).sum(2, dtype=np.float64).astype(np.float32)
    suite.run("cooperative_groups.cluster", kernel(body, "const float* x, float* y", "cooperative_groups.h cub/cub.cuh"),
              [c, Out(np.repeat(sums, 4, 0).reshape(-1), 1e-5, 1e-5)], grid=8, cluster=[4, 1, 1])
    body = """  int i = blockIdx.x * blockDim.x + threadIdx.x;
  cuda::atomic_ref<float, cuda::thread_scope_device> sum(*y);
  cuda::atomic_ref<int, cuda::thread_scope_device> most(*z);
  sum.fetch_add(floorf(x[i] * 8), cuda::memory_order_relaxed);
  most.fetch_max(int(x[i] * 1000), cuda::memory_order_acq_rel);"""
    a = x.array[:BLOCKS * THREADS]
    suite.run("atomic_ref", kernel(body, "const float* x, float* y, int* z", "cuda/atomic"),
              [x, Out(np.floor(a * 8).sum(keepdims=True), start="zero"),
               Out((a * np.float32(1000)).astype(np.int32).max(keepdims=True), start="zero")])
    body = """  int i = blockIdx.x * blockDim.x + threadIdx.x;
  cuda::std::complex<float> a(x[i], x[i + 1]), b(x[i + 2], -x[i + 3]);
  auto c = a * b + cuda::std::conj(a) / b;
  y[2 * i] = c.real();
  y[2 * i + 1] = c.imag();"""
    n = BLOCKS * THREADS
    v = x.array.astype(np.float64)
    ca, cb = v[:n] + 1j * v[1:n + 1], v[2:n + 2] - 1j * v[3:n + 3]
    cc = ca * cb + ca.conj() / cb
    suite.run("complex", kernel(body, "const float* x, float* y", "cuda/std/complex"),
              [x, Out(np.stack([cc.real, cc.imag], 1).astype(np.float32).reshape(-1), 1e-4, 1e-4)])
    body = """  int i = blockIdx.x * blockDim.x + threadIdx.x;
  __half2 h = __floats2half2_rn(x[2 * i], x[2 * i + 1]);
  __half2 r = __hfma2(h, h, __float2half2_rn(0.5f));
  r = __hmax2(r, h2exp(h));
  __nv_bfloat16 b = __float2bfloat16(x[i]);
  __nv_fp8_e4m3 e(x[i]);
  y[4 * i] = __low2float(r);
  y[4 * i + 1] = __high2float(r);
  y[4 * i + 2] = __bfloat162float(__hmul(b, b));
  y[4 * i + 3] = float(e) * 2;"""
    h = x.array[:2 * n].astype(np.float16)
    r = np.maximum((h.astype(np.float64) ** 2 + 0.5).astype(np.float16), np.exp(h.astype(np.float32)).astype(np.float16))
    bits = x.array[:n].view(np.uint32)
    b = ((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000).astype(np.uint32).view(np.float32)
    e = np.round(x.array[:n] / 2.0 ** (np.maximum(np.floor(np.log2(np.abs(x.array[:n]) + 1e-30)), -6) - 3)) \
        * 2.0 ** (np.maximum(np.floor(np.log2(np.abs(x.array[:n]) + 1e-30)), -6) - 3)
    y = np.stack([r[0::2], r[1::2], b * b, e * 2], 1).astype(np.float32)
    suite.run("fp16_bf16_fp8", kernel(body, "const float* x, float* y", "cuda_fp16.h cuda_bf16.h cuda_fp8.h"),
              [x, Out(y.reshape(-1), 8e-3, 1e-3)])


def mathematics(suite):
    n = BLOCKS * THREADS
    body = "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n  y[i] = {};"
    functions = {"sinf(x[i] * 50)": lambda v: np.sin(v * 50), "cosf(x[i])": np.cos, "tanf(x[i])": np.tan,
                 "expm1f(x[i])": np.expm1, "log1pf(fabsf(x[i]))": lambda v: np.log1p(abs(v)), "cbrtf(x[i])": np.cbrt,
                 "atan2f(x[i], x[i + 1])": None, "powf(fabsf(x[i]), x[i + 1])": None, "sinhf(x[i])": np.sinh,
                 "asinhf(x[i])": np.arcsinh, "erff(x[i])": None, "tgammaf(x[i] + 3)": None, "j0f(x[i])": None,
                 "fmodf(x[i], 0.3f)": lambda v: np.fmod(v, np.float64(np.float32(0.3))), "rintf(x[i])": np.rint}
    import math
    x = Random(n + 1, 22, np.float32)
    v = x.array.astype(np.float64)
    special = {"atan2f(x[i], x[i + 1])": np.arctan2(v[:n], v[1:]),
               "powf(fabsf(x[i]), x[i + 1])": np.abs(v[:n]) ** v[1:],
               "erff(x[i])": np.array([math.erf(t) for t in v[:n]]),
               "tgammaf(x[i] + 3)": np.array([math.gamma(float(np.float32(np.float32(t) + np.float32(3)))) for t in v[:n]])}
    for text, function in functions.items():
        if function is None and text not in special:
            continue
        expected = special[text] if function is None else function(v[:n])
        suite.run(f"math.{text.split('(')[0]}", kernel(body.format(text), "const float* x, float* y", ""),
                  [x, Out(expected.astype(np.float32), 2e-6, 4e-6 if "50" in text else 2e-6)])
    d = Random(n + 1, 23, np.float64)
    w = d.array
    for text, expected in (("sin(x[i])", np.sin(w[:n])), ("exp(x[i])", np.exp(w[:n])), ("log(fabs(x[i]))", np.log(np.abs(w[:n]))),
                           ("pow(fabs(x[i]), x[i + 1])", np.abs(w[:n]) ** w[1:]), ("atan(x[i])", np.arctan(w[:n])),
                           ("erf(x[i])", np.array([math.erf(t) for t in w[:n]])), ("sqrt(fabs(x[i]))", np.sqrt(np.abs(w[:n]))),
                           ("1.0 / x[i]", 1 / w[:n])):
        suite.run(f"math.f64.{text.split('(')[0].replace(' ', '')}", kernel(body.format(text), "const double* x, double* y", ""),
                  [d, Out(expected, 1e-14, 1e-15)])


def main(path, wanted):
    version = "3.0 of the CUDA toolkit 13.0"
    corpus = corpora.Corpus("CCCL", f"CUB, libcu++ {version}, cooperative groups and math headers; nvcc 13.0 for sm_90a",
                            "Apache-2.0 WITH LLVM-exception, BSD-3-Clause (CUB)")
    suite = Suite(corpus, wanted)
    for group in (block_reduce, block_scan, block_sort, block_moves, warps, device_agents, libcu, mathematics):
        group(suite)
        suite.finish()
    corpus.write(path)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
