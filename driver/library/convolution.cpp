#include "driver/library/convolution.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "driver/library/element.h"

namespace stitch::driver {
namespace {

using cuda::dnn::PointwiseMode;
using Kind = ConvolutionOperation::Kind;
using CudnnType = cuda::dnn::DataType;

std::int64_t elements_of(const Extents& extents, std::size_t from = 0) {
  std::int64_t count = 1;
  for (std::size_t d = from; d < extents.size(); ++d) count *= extents[d];
  return count;
}

template <class T>
void round_to(CudnnType type, std::vector<T>& values) {
  std::byte bits[8];
  for (T& value : values) {
    store_element(format_of(type), value, bits);
    value = load_element<T>(format_of(type), bits);
  }
}

template <class T>
void round_to_tf32(std::vector<T>& values) {
  for (T& value : values) {
    const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(value));
    value = std::bit_cast<float>((bits + 0x1000U) & 0xFFFFE000U);  // to nearest, ties away
  }
}

/// A position of y, one of the window, and what the window sees there of x; all of one image.
struct Term {
  std::int64_t y, w, x;
};

std::vector<Term> terms_of(const ConvolutionOperation& how) {
  const auto spatial = [](const ConvolutionTensor& tensor) {
    return Extents(tensor.extents.begin() + 2, tensor.extents.end());
  };
  const Extents in = spatial(how.x), window = spatial(how.w), out = spatial(how.y);
  std::vector<Term> terms;
  Extents p(out.size(), 0);
  std::int64_t y = 0;
  do {
    Extents r(window.size(), 0);
    std::int64_t w = 0;
    do {
      std::int64_t x = 0;
      for (std::size_t s = 0; s < in.size() && x >= 0; ++s) {
        const std::int64_t tap = how.flipped ? window[s] - 1 - r[s] : r[s];
        const std::int64_t q = p[s] * how.strides[s] + tap * how.dilation[s] - how.pre_padding[s];
        x = q < 0 || q >= in[s] ? -1 : x * in[s] + q;
      }
      if (x >= 0) terms.push_back({y, w, x});
      ++w;
    } while (advance(r, window));
    ++y;
  } while (advance(p, out));
  return terms;
}

/// All three kinds are sums of the same products.
template <class T>
void accumulate(const ConvolutionOperation& how, std::vector<T>& x, std::vector<T>& w, std::vector<T>& y) {
  const std::int64_t images = how.x.extents[0], channels = how.x.extents[1], features = how.w.extents[0];
  const std::int64_t of_group = how.w.extents[1], features_of_group = features / (channels / of_group);
  const std::int64_t in = elements_of(how.x.extents, 2), window = elements_of(how.w.extents, 2);
  const std::int64_t out = elements_of(how.y.extents, 2);
  const std::vector<Term> terms = terms_of(how);
  for (std::int64_t n = 0; n < images; ++n) {
    for (std::int64_t k = 0; k < features; ++k) {
      for (std::int64_t c = 0; c < of_group; ++c) {
        T* const xs = x.data() + (n * channels + k / features_of_group * of_group + c) * in;
        T* const ws = w.data() + (k * of_group + c) * window;
        T* const ys = y.data() + (n * features + k) * out;
        switch (how.kind) {
          case Kind::forward:
            for (const Term& term : terms) ys[term.y] += xs[term.x] * ws[term.w];
            break;
          case Kind::backward_data:
            for (const Term& term : terms) xs[term.x] += ys[term.y] * ws[term.w];
            break;
          case Kind::backward_filter:
            for (const Term& term : terms) ws[term.w] += ys[term.y] * xs[term.x];
            break;
        }
      }
    }
  }
}

/// Values by the tensors' numbers.
template <class T>
using Values = std::map<std::int64_t, std::vector<T>>;

template <class T>
void convolve(const ConvolutionOperation& how, bool tf32, Values<T>& values) {
  std::vector<T> before = std::move(values[how.result().id]);
  values[how.result().id].assign(elements_of(how.result().extents), T{0});
  if (tf32) {
    for (const ConvolutionTensor* each : {&how.x, &how.w, &how.y}) {
      if (each != &how.result()) round_to_tf32(values[each->id]);
    }
  }
  accumulate(how, values[how.x.id], values[how.w.id], values[how.y.id]);
  for (T& value : values[how.result().id]) value *= static_cast<T>(how.alpha);
  if (how.beta == 0) return;
  for (std::size_t i = 0; i < before.size(); ++i) values[how.result().id][i] += static_cast<T>(how.beta) * before[i];
}

template <class T>
void apply(const PointwiseOperation& how, Values<T>& values) {
  const std::vector<T>& from = values[how.x.id];
  std::vector<T> made;
  Extents index(how.y.extents.size(), 0), repeated(index.size(), 0);
  if (how.b) {
    std::int64_t stride = 1;
    for (std::size_t d = index.size(); d-- > 0; stride *= how.b->extents[d])
      repeated[d] = how.b->extents[d] == 1 ? 0 : stride;
  }
  for (const T each : from) {
    const T value = static_cast<T>(how.alpha1) * each;
    if (how.mode == PointwiseMode::add) {
      made.push_back(value + values[how.b->id][place_of(index, repeated)]);
    } else {
      const bool kept = value > 0 || (how.propagates_nan && value != value);
      made.push_back(kept ? value : T{0});
    }
    advance(index, how.y.extents);
  }
  values[how.y.id] = std::move(made);
}

template <class T>
void compute(const ConvolutionGraph& graph, bool tf32, Values<T>& values) {
  convolve(graph.convolution, tf32, values);
  round_to(graph.convolution.result().type, values[graph.convolution.result().id]);
  for (const PointwiseOperation& each : graph.behind) {
    apply(each, values);
    round_to(each.y.type, values[each.y.id]);
  }
}

bool is_known(CudnnType type) {
  return type == CudnnType::f32 || type == CudnnType::f64 || type == CudnnType::f16 || type == CudnnType::bf16;
}

Error shapes(std::string what) { return make_error(ErrorKind::invalid_argument, "{}", std::move(what)); }

}  // namespace

const ConvolutionTensor& ConvolutionOperation::result() const {
  return kind == Kind::forward ? y : kind == Kind::backward_data ? x : w;
}

std::vector<ConvolutionTensor> ConvolutionGraph::in_memory() const {
  std::vector<ConvolutionTensor> tensors;
  for (const ConvolutionTensor* each : {&convolution.x, &convolution.w, &convolution.y}) {
    if (each != &convolution.result()) tensors.push_back(*each);
  }
  for (const PointwiseOperation& each : behind) {
    if (each.b) tensors.push_back(*each.b);
  }
  tensors.push_back(behind.empty() ? convolution.result() : behind.back().y);
  return tensors;
}

bool ConvolutionGraph::multiplies_f32() const {
  return convolution.compute == CudnnType::f32 && in_memory()[0].type == CudnnType::f32;
}

Status check_tensor(const ConvolutionTensor& tensor) {
  if (!is_known(tensor.type)) return make_error(ErrorKind::unsupported, "a tensor of a type that is not emulated");
  if (tensor.extents.size() != tensor.strides.size())
    return shapes(fmt::format("{} extents and {} strides", tensor.extents.size(), tensor.strides.size()));
  for (const std::vector<std::int64_t>* each : {&tensor.extents, &tensor.strides}) {
    if (std::ranges::any_of(*each, [](std::int64_t value) { return value < 1; }))
      return shapes(fmt::format("an extent or stride that is not positive: [{}]", fmt::join(*each, ",")));
  }
  if (tensor.alignment < 1 || tensor.alignment % static_cast<std::int64_t>(bytes_of(format_of(tensor.type))) != 0)
    return shapes(fmt::format("an alignment of {} bytes, which is no multiple of an element's size", tensor.alignment));
  return {};
}

Status check_convolution(const ConvolutionOperation& operation) {
  const ConvolutionTensor &x = operation.x, &w = operation.w, &y = operation.y;
  const std::size_t spatial = operation.strides.size();
  for (const ConvolutionTensor* each : {&x, &w, &y}) {
    if (each->extents.size() != spatial + 2)
      return shapes(fmt::format("a tensor of {} dimensions for {} spatial ones", each->extents.size(), spatial));
  }
  const auto text = [&] {
    return fmt::format("x [{}], w [{}], y [{}]", fmt::join(x.extents, ","), fmt::join(w.extents, ","),
                       fmt::join(y.extents, ","));
  };
  if (x.extents[0] != y.extents[0] || w.extents[0] != y.extents[1] || x.extents[1] % w.extents[1] != 0 ||
      w.extents[0] % (x.extents[1] / w.extents[1]) != 0)
    return shapes("images or features that do not fit together: " + text());
  for (std::size_t s = 0; s < spatial; ++s) {
    const std::int64_t padded = x.extents[s + 2] + operation.pre_padding[s] + operation.post_padding[s];
    const std::int64_t reach = (w.extents[s + 2] - 1) * operation.dilation[s] + 1;
    if (padded < reach || (padded - reach) / operation.strides[s] + 1 != y.extents[s + 2])
      return shapes(fmt::format("spatial dimension {} does not fit the window: {}", s, text()));
  }
  const ConvolutionTensor& left = operation.kind == Kind::forward ? x : y;
  const ConvolutionTensor& right = operation.kind == Kind::backward_filter ? x : w;
  const bool doubles = operation.compute == CudnnType::f64;
  if (left.type != right.type || (left.type == CudnnType::f64) != doubles ||
      (!doubles && operation.compute != CudnnType::f32))
    return make_error(ErrorKind::unsupported, "no convolution of {} and {} computed in {}",
                      name_of(format_of(left.type)), name_of(format_of(right.type)),
                      name_of(format_of(operation.compute)));
  return {};
}

Status check_pointwise(const PointwiseOperation& operation) {
  const ConvolutionTensor &x = operation.x, &y = operation.y;
  if (x.extents != y.extents) return shapes("an element-wise operation that changes extents");
  if ((operation.mode == PointwiseMode::add) != operation.b.has_value())
    return shapes("an addition has a second operand, and nothing else has");
  if (!operation.b) return {};
  const ConvolutionTensor& b = *operation.b;
  if (b.extents.size() != y.extents.size()) return shapes("operands of unlike ranks");
  for (std::size_t d = 0; d < b.extents.size(); ++d) {
    if (b.extents[d] != 1 && b.extents[d] != y.extents[d])
      return shapes(fmt::format("[{}] is not repeated to [{}]", fmt::join(b.extents, ","), fmt::join(y.extents, ",")));
  }
  return {};
}

Status check_graph(const ConvolutionGraph& graph) {
  if (graph.convolution.beta != 0 && !graph.behind.empty())
    return make_error(ErrorKind::unsupported, "operations behind a convolution whose beta is not zero");
  const ConvolutionTensor* made = &graph.convolution.result();
  for (const PointwiseOperation& each : graph.behind) {
    if (each.x.id != made->id) return shapes("an operation that does not read what the one before it makes");
    if (!made->is_virtual)
      return make_error(ErrorKind::unsupported, "a tensor between two operations that is not virtual");
    if (each.x.extents != made->extents) return shapes("two tensors of one number");
    made = &each.y;
  }
  std::set<std::int64_t> numbers;
  for (const ConvolutionTensor& tensor : graph.in_memory()) {
    if (tensor.is_virtual) return shapes(fmt::format("tensor {} is virtual and at an end of the graph", tensor.id));
    if (!numbers.insert(tensor.id).second) return shapes(fmt::format("two tensors have the number {}", tensor.id));
  }
  return {};
}

std::string describe(const ConvolutionGraph& graph) {
  const ConvolutionOperation& how = graph.convolution;
  const char* name = how.kind == Kind::forward         ? "convolution"
                     : how.kind == Kind::backward_data ? "convolution backward data"
                                                       : "convolution backward filter";
  std::string text = fmt::format("{} {} x [{}], w [{}]", name, name_of(format_of(graph.in_memory()[0].type)),
                                 fmt::join(how.x.extents, ","), fmt::join(how.w.extents, ","));
  for (const PointwiseOperation& each : graph.behind) text += each.mode == PointwiseMode::add ? " + b" : ", relu";
  return text;
}

LibraryWork work_of(const ConvolutionGraph& graph, const std::map<std::int64_t, CUdeviceptr>& at, bool tf32) {
  LibraryWork work;
  work.name = describe(graph);
  const std::vector<ConvolutionTensor> tensors = graph.in_memory();
  std::vector<TensorMemory> lies;
  for (const ConvolutionTensor& tensor : tensors) {
    lies.push_back(memory_of(tensor, at.at(tensor.id), tensor.id == tensors.back().id));
    work.accesses.insert(work.accesses.end(), lies.back().accesses.begin(), lies.back().accesses.end());
  }
  const bool reads_result = graph.convolution.beta != 0;
  if (reads_result) {
    const TensorMemory before = memory_of(tensors.back(), at.at(tensors.back().id), false);
    work.accesses.insert(work.accesses.end(), before.accesses.begin(), before.accesses.end());
  }
  work.run = [graph, tensors, lies, tf32, reads_result](std::span<std::vector<std::byte>> memory) {
    std::vector<TensorImage> images;
    for (std::size_t t = 0, from = 0; t < tensors.size(); from += lies[t++].places.size())
      images.emplace_back(tensors[t], lies[t], memory.subspan(from, lies[t].places.size()));
    const auto run = [&]<class T>(T) {
      Values<T> values;
      for (std::size_t t = 0; t < tensors.size(); ++t) {
        if (t + 1 < tensors.size() || reads_result) values[tensors[t].id] = images[t].template load<T>();
      }
      compute(graph, tf32, values);
      images.back().store(values[tensors.back().id]);
    };
    graph.convolution.compute == CudnnType::f64 ? run(double{}) : run(float{});
  };
  return work;
}

}  // namespace stitch::driver
