#pragma once

#include "benchmarks/published/published_runs.h"

#include <string>
#include <vector>

namespace pipescope {
/// How the errors of two layouts of one model differ, in one program and dtype on one type of device.
struct LayoutPairs {
    std::string program;
    bool experts = false;
    int pairs = 0;
    int right = 0;      ///< the quicker one was predicted to be quicker
    double spread = 0;  ///< nine of ten ratios of both errors differ from 1 by at most this
};
/// By program, and over all programs ("all").
std::vector<LayoutPairs> layout_pairs(const std::vector<PublishedRun>& runs);

/// How the memory that devices showed compares to predictions of it.
struct MemoryErrors {
    std::string program;
    int runs = 0;
    double low = 1;   ///< nine of ten took from this share of the prediction
    double high = 1;  ///< to this
};
std::vector<MemoryErrors> memory_errors(const std::vector<PublishedRun>& runs);
}  // namespace pipescope
