#include "import/onnx/operators/window.h"

#include <algorithm>

namespace stitch::import::onnx {
namespace {

constexpr std::int64_t largest = std::int64_t{1} << 31;

Result<Dims> bounded(Call& c, std::string_view name, Dims fallback, std::size_t count, std::int64_t least) {
  STITCH_ASSIGN(Dims list, c.node.integers(name, std::move(fallback)));
  if (list.size() != count) return Call::wrong("attribute '{}' has {} entries instead of {}", name, list.size(), count);
  for (const std::int64_t value : list) {
    if (value < least || value > largest) return Call::wrong("attribute '{}' has {}", name, value);
  }
  return list;
}

}  // namespace

Result<Window> read_window(Call& c, const Dims& spatial, std::optional<Dims> sizes) {
  const std::size_t count = spatial.size();
  Window w;
  if (!sizes && !c.node.has("kernel_shape")) return Call::wrong("attribute 'kernel_shape' is missing");
  STITCH_ASSIGN(w.sizes, bounded(c, "kernel_shape", sizes.value_or(Dims{}), count, 1));
  if (sizes && *sizes != w.sizes) {
    return Call::wrong("attribute 'kernel_shape' is {}, the weights have {}", graph::to_string(w.sizes),
                       graph::to_string(*sizes));
  }
  STITCH_ASSIGN(w.strides, bounded(c, "strides", Dims(count, 1), count, 1));
  STITCH_ASSIGN(w.dilations, bounded(c, "dilations", Dims(count, 1), count, 1));
  STITCH_ASSIGN(const Dims pads, bounded(c, "pads", Dims(2 * count, 0), 2 * count, -largest));
  STITCH_ASSIGN(const std::string automatic, c.node.text("auto_pad", "NOTSET"));
  w.low.assign(pads.begin(), pads.begin() + count);
  w.high.assign(pads.begin() + count, pads.end());
  if (automatic == "NOTSET" || automatic.empty()) return w;
  if (automatic != "VALID" && automatic != "SAME_UPPER" && automatic != "SAME_LOWER") {
    return Call::wrong("attribute 'auto_pad' is '{}'", automatic);
  }
  for (std::size_t d = 0; d < count; ++d) {
    w.low[d] = w.high[d] = 0;
    if (automatic == "VALID") continue;
    const std::int64_t outputs = (spatial[d] + w.strides[d] - 1) / w.strides[d];
    const std::int64_t total = std::max<std::int64_t>((outputs - 1) * w.strides[d] + w.span(d) - spatial[d], 0);
    w.low[d] = automatic == "SAME_UPPER" ? total / 2 : total - total / 2;
    w.high[d] = total - w.low[d];
  }
  return w;
}

}  // namespace stitch::import::onnx
