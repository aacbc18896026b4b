#include "client/host/contraction.h"

#include <algorithm>

#include "graph/dot_dimensions.h"

namespace stitch::client {
namespace {

using graph::Dims;

Dims joined(std::initializer_list<Dims> parts) {
  Dims all;
  for (const Dims& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

/// A convolution with its dimensions in canonical order: [batch, feature, spatial…], [output, input, spatial…].
template <class T>
class Convolution {
 public:
  Convolution(const Blas& blas, const HostArray<T>& input, const HostArray<T>& kernel,
              const graph::ConvolutionAttributes& how, const Dims& dims)
      : blas_(blas),
        how_(how),
        input_(reordered(input, joined({{how.input_batch, how.input_feature}, how.input_spatial}))),
        kernel_(reordered(kernel, joined({{how.kernel_output_feature, how.kernel_input_feature}, how.kernel_spatial}))),
        output_order_(joined({{how.output_batch, how.output_feature}, how.output_spatial})) {
    for (const std::int64_t d : output_order_) output_.dims.push_back(dims[d]);
    output_.data.resize(graph::element_count(output_.dims));
    for (std::size_t d = 2; d < output_.dims.size(); ++d) {
      positions_ *= output_.dims[d];
      window_ *= kernel_.dims[d];
      image_ *= input_.dims[d];
    }
  }

  HostArray<T> run() {
    const std::int64_t groups = std::max(how_.feature_groups, how_.batch_groups);
    const std::int64_t features = kernel_.dims[0] / groups, channels = kernel_.dims[1];
    const std::int64_t depth = channels * window_;
    std::vector<T> patches(depth * positions_);
    for (std::int64_t n = 0; n < output_.dims[0]; ++n) {
      for (std::int64_t g = 0; g < groups; ++g) {
        const std::int64_t image = how_.batch_groups > 1 ? g * output_.dims[0] + n : n;
        const std::int64_t channel = how_.feature_groups > 1 ? g * channels : 0;
        for (std::int64_t c = 0; c < channels; ++c) {
          fill_patches(input_.data.data() + (image * input_.dims[1] + channel + c) * image_,
                       patches.data() + c * window_ * positions_);
        }
        const std::int64_t first = g * features;
        T* const result = output_.data.data() + (n * output_.dims[1] + first) * positions_;
        if (depth == 0 || positions_ == 0 || features == 0) continue;
        blas_.multiply(features, positions_, depth, kernel_.data.data() + first * depth, patches.data(), result);
      }
    }
    Dims back(output_order_.size());
    for (std::size_t d = 0; d < back.size(); ++d) back[output_order_[d]] = d;
    return reordered(output_, back);
  }

 private:
  /// For every position of the window, what it sees of one channel at every position of the result.
  void fill_patches(const T* channel, T* patches) const {
    const std::size_t rank = output_.dims.size() - 2;
    Dims window(rank, 0);
    for (std::int64_t w = 0; w < window_; ++w) {
      Dims position(rank, 0);
      for (std::int64_t p = 0; p < positions_; ++p) {
        *patches++ = seen(channel, window, position);
        advance(position, output_.dims);
      }
      advance(window, kernel_.dims);
    }
  }

  [[nodiscard]] T seen(const T* channel, const Dims& window, const Dims& position) const {
    std::int64_t at = 0;
    for (std::size_t s = 0; s < window.size(); ++s) {
      const bool reversed = s < how_.window_reversal.size() && how_.window_reversal[s];
      const std::int64_t w = reversed ? kernel_.dims[s + 2] - 1 - window[s] : window[s];
      const std::int64_t dilated = position[s] * how_.strides[s] + w * how_.kernel_dilation[s] - how_.low[s];
      if (dilated < 0 || dilated % how_.input_dilation[s] != 0) return 0;
      const std::int64_t index = dilated / how_.input_dilation[s];
      if (index >= input_.dims[s + 2]) return 0;
      at = at * input_.dims[s + 2] + index;
    }
    return channel[at];
  }

  /// The next index in row-major order, of the spatial dimensions.
  static void advance(Dims& index, const Dims& dims) {
    for (std::size_t d = index.size(); d-- > 0;) {
      if (++index[d] < dims[d + 2]) return;
      index[d] = 0;
    }
  }

  const Blas& blas_;
  const graph::ConvolutionAttributes& how_;
  const HostArray<T> input_, kernel_;
  const Dims output_order_;
  HostArray<T> output_;
  std::int64_t positions_ = 1, window_ = 1, image_ = 1;
};

}  // namespace

template <class T>
HostArray<T> contract(const Blas& blas, const HostArray<T>& left, const HostArray<T>& right,
                      const graph::DotAttributes& how) {
  const Dims rows = graph::free_dimensions(left.dims.size(), how.lhs_batch, how.lhs_contracting);
  const Dims columns = graph::free_dimensions(right.dims.size(), how.rhs_batch, how.rhs_contracting);
  const HostArray<T> a = reordered(left, joined({how.lhs_batch, rows, how.lhs_contracting}));
  const HostArray<T> b = reordered(right, joined({how.rhs_batch, how.rhs_contracting, columns}));
  HostArray<T> result;
  for (const std::int64_t d : joined({how.lhs_batch, rows})) result.dims.push_back(left.dims[d]);
  for (const std::int64_t d : columns) result.dims.push_back(right.dims[d]);
  const std::int64_t batches = graph::product_of(left.dims, how.lhs_batch), m = graph::product_of(left.dims, rows);
  const std::int64_t n = graph::product_of(right.dims, columns), k = graph::product_of(left.dims, how.lhs_contracting);
  result.data.resize(batches * m * n);
  if (m == 0 || n == 0 || k == 0) return result;
  for (std::int64_t i = 0; i < batches; ++i)
    blas.multiply(m, n, k, a.data.data() + i * m * k, b.data.data() + i * k * n, result.data.data() + i * m * n);
  return result;
}

template <class T>
HostArray<T> convolve(const Blas& blas, const HostArray<T>& input, const HostArray<T>& kernel,
                      const graph::ConvolutionAttributes& how, const Dims& dims) {
  return Convolution<T>(blas, input, kernel, how, dims).run();
}

template HostArray<float> contract(const Blas&, const HostArray<float>&, const HostArray<float>&,
                                   const graph::DotAttributes&);
template HostArray<double> contract(const Blas&, const HostArray<double>&, const HostArray<double>&,
                                    const graph::DotAttributes&);
template HostArray<float> convolve(const Blas&, const HostArray<float>&, const HostArray<float>&,
                                   const graph::ConvolutionAttributes&, const Dims&);
template HostArray<double> convolve(const Blas&, const HostArray<double>&, const HostArray<double>&,
                                    const graph::ConvolutionAttributes&, const Dims&);

}  // namespace stitch::client
