#pragma once

namespace pipescope {
/// Who decides when a micro-batch goes backward through a partition.
enum class Driver {
    scheduled,  ///< the task graph: each lane runs its backward tasks itself
    autograd,   ///< torch's autograd, led by edges without values: the paper's way
};

/// The parts that the paper's driver is made of, for finding out what each is worth; only Driver::autograd reads them.
/// Source: torchgpipe (arXiv 2004.09910), table 1.
struct AutogradParts {
    bool dependency = true;    ///< phony edges make backward take the micro-batches last first
    bool copy_streams = true;  ///< copies overlap computing, on streams of their own; nothing on CPU lanes
    bool portals = true;       ///< skips go straight to where they are popped, not through the partitions between
};
}  // namespace pipescope
