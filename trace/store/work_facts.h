#pragma once

#include "base/ids.h"

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace pipescope {
/// A message of a collective, or of a send or receive, according to the profiler.
struct CollectiveFacts {
    std::string type;          ///< "all_reduce", "send", .. (collective_type()); empty: no message
    std::string element_type;  ///< as the profiler writes it: "BFloat16"; empty: unknown
    std::string group;         ///< the group's ranks, "[0, 1]", or else its name; empty: unknown
    std::int64_t group_size = 0;

    friend auto operator<=>(const CollectiveFacts&, const CollectiveFacts&) = default;
};

/// What a file says about a kernel, copy or fill besides its name and times. 0 or empty: the file does not say.
struct WorkFacts {
    std::array<std::int64_t, 3> grid{};
    std::array<std::int64_t, 3> block{};
    std::int64_t registers = 0;  ///< of a thread
    Bytes shared_memory = 0;     ///< of a block, static and dynamic
    Bytes bytes = 0;             ///< copied or filled; of a collective, the larger of a rank's input and output
    CollectiveFacts collective = {};

    bool has_launch() const { return grid[0] > 0 && block[0] > 0; }
    friend auto operator<=>(const WorkFacts&, const WorkFacts&) = default;
};

/// The type of a collective by the profiler's name, such as "_allgather_base", or by the kernel's, such as
/// "ncclDevKernel_AllGather_RING_LL". Empty for other names, and for NCCL's kernels that hold several types.
std::string_view collective_type(std::string_view name);

/// Bus bandwidth / (bytes / time) of a collective in a group, as NCCL's tests define it: how often a link of a ring
/// carries each byte. 0 if the type is unknown, or if the group has less than two ranks.
double bus_factor(std::string_view type, std::int64_t group_size);

/// Bytes of an element of this type, as PyTorch's profiler writes it ("BFloat16", "c10::BFloat16", "float"). 0:
/// unknown.
Bytes element_bytes(std::string_view element_type);

/// Numbers different facts. Until take(), 0 is that nothing is known.
class FactTable {
public:
    FactTable() { number_of({}); }

    std::uint32_t number_of(const WorkFacts& facts);
    /// Returns the facts by number, and empties the table.
    std::vector<WorkFacts> take();

private:
    std::map<WorkFacts, std::uint32_t> numbers_;
    std::map<WorkFacts, std::uint32_t>::const_iterator last_;  // successive kernels are often launched alike
};
}  // namespace pipescope
