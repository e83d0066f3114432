#pragma once

#include "trace/store/opened_trace.h"

#include <string_view>
#include <vector>

namespace pipescope {
/// How the names of the operators begin that autograd's threads run.
inline constexpr std::string_view kAutogradOperator = "autograd::engine::evaluate_function";

/// Arrows from operators to the operators of their backwards, as PyTorch's profiler draws them, or else by the numbers
/// in the names of emit_nvtx() ("aten::mm, seq = 7", "MmBackward0, seq = 7"). By the backward's place. Cost: O(ranges).
std::vector<RangeArrow> backward_links(const OpenedTrace& trace);
}  // namespace pipescope
