#include "search/schedule/vector_choice.h"

#include <algorithm>
#include <vector>

#include "kernel/structure/row_shift.h"

namespace stitch::search {

VectorChoice choose_vector(const kernel::GroupStructure& group) {
  const kernel::ScalarProgram& program = *group.program;
  const auto& axes = program.axes();
  std::vector<double> weight(axes.axes.size(), 0);
  struct Contiguous {
    int axis;
    int bytes;
    double elements;
  };
  std::vector<Contiguous> accesses;
  const auto consider = [&](kernel::Index address, int bytes, kernel::AxisSet along) {
    double elements = 1;
    for (const int a : along) elements *= std::min<std::int64_t>(axes.extents[a], 1 << 20);
    for (const int a : along) {
      if (a == group.slab_axis) continue;
      const kernel::IndexPool::Run run = program.pool().run(address, axes.variables[a], 1);
      if (!run.regular || run.step != 1) continue;
      weight[a] += elements * bytes;
      accesses.push_back({a, bytes, elements});
    }
  };
  for (const kernel::Item& item : program.items()) {
    if (item.kind == kernel::Item::Kind::load) consider(item.index, graph::byte_size(item.dtype), item.axes);
  }
  for (const kernel::Anchor& anchor : group.anchors) {
    if (anchor.kind == kernel::Anchor::Kind::store)
      consider(anchor.addresses[0], graph::byte_size(anchor.dtype), anchor.axes);
    if (anchor.kind == kernel::Anchor::Kind::partial)
      consider(anchor.addresses.back(), 4, anchor.axes - anchor.reduced);
  }
  VectorChoice choice;
  double best = 0;
  for (int a = 0; a < std::ssize(weight); ++a) {
    if (weight[a] > best) {
      best = weight[a];
      choice.axis = a;
    }
  }
  if (choice.axis < 0) return choice;
  const int at = choice.axis;
  // A lane's 16 bytes of the widest elements: of more it would take every second half of 32 bytes at a time, and touch
  // every sector twice. What has few elements (a gain, a bias) does not decide.
  double most = 0;
  for (const Contiguous& access : accesses) most = std::max(most, access.axis == at ? access.elements : 0.0);
  int widest = 1;
  for (const Contiguous& access : accesses) {
    if (access.axis == at && 4 * access.elements >= most) widest = std::max(widest, access.bytes);
  }
  choice.width = std::clamp(16 / widest, 1, 8);
  const bool alone = axes.axes.size() == 1;
  constexpr std::int64_t few = 4;  // vectors of a row: what they save is lost at its ends
  if (!alone && choice.width > 1 && axes.extents[at] >= few * choice.width &&
      kernel::row_shift(group, at, choice.width))
    choice.shifted_width = choice.width;
  while (choice.width > 1 && !alone && axes.extents[at] % choice.width != 0) choice.width /= 2;
  while (choice.width > 1 && axes.extents[at] < choice.width) choice.width /= 2;
  return choice;
}

}  // namespace stitch::search
