#pragma once

#include "base/error.h"
#include "base/ids.h"

#include <cstddef>
#include <string>
#include <vector>

namespace pipescope {
/// Number of consecutive layers of each partition: {2, 3} cuts five layers after the second.
/// Invariant: at least one partition, each with at least one layer. Units: layers, never bytes or seconds.
/// Ownership and threading: an immutable value; copy it freely, read it from any thread.
/// Source: GPipe (arXiv 1811.06965), section 2.1, where a partition is called a cell.
class Balance {
public:
    /// Throws BalanceError if the list is empty or a partition would own no layer.
    explicit Balance(const std::vector<std::int64_t>& layers_per_partition);

    std::size_t num_partitions() const noexcept { return ends_.size(); }
    std::size_t num_layers() const noexcept { return ends_.back(); }

    /// Half-open range of layers. Throws BalanceError unless partition < num_partitions().
    LayerRange layers_of(PartitionId partition) const;
    /// The partition that owns a layer. Throws BalanceError unless layer < num_layers().
    PartitionId partition_of(LayerId layer) const;
    std::vector<std::int64_t> layers_per_partition() const;

    /// Throws BalanceError unless the balance covers exactly `num_layers` layers.
    void check_covers(std::size_t num_layers) const;

    friend bool operator==(const Balance&, const Balance&) = default;

private:
    std::vector<std::size_t> ends_;  // running sums: the simulator asks layers_of() per task
};

/// "2,3,1"
std::string to_string(const Balance& balance);
/// Parses "2,3,1". Throws BalanceError unless the text is positive integers separated by commas.
Balance parse_balance(const std::string& text);
}  // namespace pipescope
