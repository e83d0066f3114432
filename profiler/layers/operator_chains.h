#pragma once

#include "profiler/profile/operators.h"

#include <cstddef>
#include <vector>

namespace pipescope {
/// The operators of a layer as a compiler sees them, in the order in which they ran: what each reads and writes.
struct OperatorRecord {
    /// A tensor's memory between two writes.
    struct Value {
        double bytes = 0;
        bool is_result = false;  ///< someone outside needs it, so it is written
    };
    struct Read {
        std::size_t value = 0;
        double bytes = 0;  ///< that the operator reads: fewer than the value's for a part of it
    };
    struct Write {
        std::size_t value = 0;
        double bytes = 0;
    };
    struct Operator {
        std::size_t part = 0;  ///< such as forward and backward; parts are in order
        bool fuses = true;     ///< can be in one kernel with others
        double flops = 0;      ///< of a product: in no chain
        double bytes = 0;      ///< moved as a kernel of its own
        double logits = 0;     ///< of a cross entropy
        std::vector<Read> reads = {};
        std::vector<Write> writes = {};
    };
    std::vector<Value> values;
    std::vector<Operator> operators;
};

/// For each of `parts`: what its operators without products move if each chain of them is one kernel. An operator that
/// does not fuse is a chain of its own.
///
/// Idea: a chain consists of operators that pass values to each other, with as many operators before them that do not
/// fuse; so nothing outside is between two of them. It reads the values that enter it once, and writes those that leave
/// it: results, and what operators that do not fuse read. Another chain that needs a value of this one, such as the
/// backward, either reads it, and then it is written; or computes it again from what this chain read. The cheaper way
/// counts, as in compilers.
std::vector<Operators> fused_chains(const OperatorRecord& record, std::size_t parts);

/// The same operators, with equal ones as one entry.
Operators merged(const Operators& operators);
}  // namespace pipescope
