#pragma once

namespace pipescope {
/// Decides when a micro-batch goes backward through a partition.
enum class Driver {
    scheduled,  ///< the task graph: each lane runs its backward tasks itself
    autograd,   ///< torch's autograd, ordered by edges without values, as in the paper
};

/// The parts of the paper's driver, to measure what each contributes; only Driver::autograd reads them.
/// Source: torchgpipe (arXiv 2004.09910), table 1.
struct AutogradParts {
    bool dependency = true;    ///< phony edges make backward take the micro-batches last first
    bool copy_streams = true;  ///< copies overlap computing, on their own streams; no effect on CPU lanes
    bool portals = true;       ///< skips go straight to their popping lane, not through the partitions between
};
}  // namespace pipescope
