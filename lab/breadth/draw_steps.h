#pragma once

#include "lab/breadth/graph_draft.h"

// One operator more of a random graph: each step picks operands among the values that there are, draws attributes and
// notes what comes of it, or does nothing where nothing fits. A source per family; random_graph.cpp has the table.
namespace stitch::lab {

// draw_elementwise.cpp
void draw_unary(GraphDraft& draft);   ///< any of the operator table
void draw_binary(GraphDraft& draft);  ///< any of the operator table
void draw_compare(GraphDraft& draft);
void draw_select(GraphDraft& draft);
void draw_clamp(GraphDraft& draft);
void draw_convert(GraphDraft& draft);
void draw_bitcast(GraphDraft& draft);
void draw_random_bits(GraphDraft& draft);  ///< threefry2x32, philox4x32

// draw_layout.cpp
void draw_iota(GraphDraft& draft);
void draw_broadcast(GraphDraft& draft);
void draw_reshape(GraphDraft& draft);
void draw_transpose(GraphDraft& draft);
void draw_slice(GraphDraft& draft);
void draw_pad(GraphDraft& draft);
void draw_reverse(GraphDraft& draft);
void draw_concatenate(GraphDraft& draft);

// draw_indexed.cpp
void draw_dynamic_slice(GraphDraft& draft);
void draw_dynamic_update_slice(GraphDraft& draft);
void draw_gather(GraphDraft& draft);
void draw_scatter(GraphDraft& draft);

// draw_reductions.cpp
void draw_reduce(GraphDraft& draft);
void draw_normalisation(GraphDraft& draft);  ///< rows less their extreme or mean, over their sum: what reads rows again
void draw_arg_reduce(GraphDraft& draft);
void draw_max_exp_sum(GraphDraft& draft);
void draw_sort(GraphDraft& draft);
void draw_scan(GraphDraft& draft);
void draw_reduce_window(GraphDraft& draft);
void draw_select_and_scatter(GraphDraft& draft);

}  // namespace stitch::lab
