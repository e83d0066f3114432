#pragma once

#include "schedule/task_graph.h"

#include <cstddef>
#include <vector>

namespace pipescope {
/// A value for each task (i, j) of a step, by micro-batch i and partition j.
template <class Value>
class ByCell {
public:
    /// Holds none.
    ByCell() = default;
    ByCell(std::size_t num_partitions, std::size_t num_micro_batches)
        : num_micro_batches_(num_micro_batches), values_(num_partitions * num_micro_batches) {}

    Value& operator[](Cell at) { return values_[at.j.index() * num_micro_batches_ + at.i.index()]; }
    bool empty() const noexcept { return values_.empty(); }
    void clear() { values_.clear(); }

private:
    std::size_t num_micro_batches_ = 0;
    std::vector<Value> values_;
};
}  // namespace pipescope
