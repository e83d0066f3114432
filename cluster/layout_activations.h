#pragma once

#include "cluster/layout.h"

namespace pipescope {
/// Tokens of a micro-batch on one context-parallel rank.
double rank_tokens(const LanguageModel& model, const Layout& layout);
/// The parts into which tensor-parallel ranks split norms, dropouts and what lies between blocks.
int sequence_split(const Layout& layout);

/// The copies of one rank's tokens, one for each expert that computes a token. As many arrive from all ranks. If
/// experts are unequally busy, those of the busiest rank.
double rank_copied_tokens(const LanguageModel& model, const Layout& layout);

/// Bytes of a block's activations for one micro-batch on one rank, as the layout's program and recompute mode keep
/// them.
struct LayoutActivations {
    double input = 0;     ///< of the block; kept if it has a backward
    double saved = 0;     ///< kept besides from the forward to the backward
    double repeated = 0;  ///< held only while the block works: its recompute, or the forward of a frozen block
};
LayoutActivations layout_activations(const LanguageModel& model, BlockKind kind, const Layout& layout);
}  // namespace pipescope
