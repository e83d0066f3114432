#pragma once

#include "base/ids.h"

#include <array>
#include <cstddef>
#include <string_view>

namespace pipescope {
/// The use of a lane's bytes, measured or simulated. simulator/memory/memory_model.h defines each category. The names
/// are columns of every trace and keys of the reports: never rename them.
enum class MemoryCategory { parameters, gradients, optimizer, boundary, saved, skip, transient, copy, output };
inline constexpr std::size_t kNumMemoryCategories = 9;
std::string_view to_string(MemoryCategory category);

/// Bytes per category.
class MemoryBreakdown {
public:
    /// Marks a category without attributed bytes, as opposed to one that holds 0 bytes.
    static constexpr Bytes kUnknown = -1;

    constexpr MemoryBreakdown() { bytes_.fill(kUnknown); }

    constexpr Bytes& operator[](MemoryCategory category) { return bytes_[static_cast<std::size_t>(category)]; }
    constexpr Bytes operator[](MemoryCategory category) const { return bytes_[static_cast<std::size_t>(category)]; }
    /// True if any category is known.
    bool known() const;

    friend bool operator==(const MemoryBreakdown&, const MemoryBreakdown&) = default;

private:
    std::array<Bytes, kNumMemoryCategories> bytes_{};
};
}  // namespace pipescope
