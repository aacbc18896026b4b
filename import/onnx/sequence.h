#pragma once

#include "import/onnx/call.h"

/// Sequences of tensors exist only while the model is read: a sequence is an opaque node that lists its elements as
/// operands, and the operators below look through it. What is left of it is dead, unless the model hands a sequence
/// out or into a subgraph: then it is a boundary like any other.
namespace stitch::import::onnx {

Result<Values> sequence_construct(Call&c), sequence_empty(Call&c), sequence_insert(Call&c), sequence_erase(Call&c);
Result<Values> sequence_at(Call&c), sequence_length(Call&c), split_to_sequence(Call&c);
Result<Values> concat_from_sequence(Call& c);

}  // namespace stitch::import::onnx
