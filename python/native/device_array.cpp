#include "python/native/device_array.h"

namespace stitch::python {

DeviceArray::~DeviceArray() {
  if (!memory) return;
  const client::CurrentContext current(*context);
  if (!current.status()) return;
  const client::BesideCaptures beside(*context->driver);  // the interpreter frees it whenever it likes
  memory.reset();
}

}  // namespace stitch::python
