#pragma once

#include "trace/opened_trace.h"

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace pipescope {
/// Gives texts numbers, the same text the same one. 0 is the empty text.
class NameTable {
public:
    NameTable() { number_of(""); }

    std::uint32_t number_of(std::string_view text);
    /// The texts by number; the table is empty afterwards.
    std::vector<std::string> take() { return std::move(texts_); }
    const std::string& text(std::uint32_t number) const { return texts_.at(number); }

private:
    struct Hash {
        using is_transparent = void;
        std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
    };
    std::vector<std::string> texts_;
    std::unordered_map<std::string, std::uint32_t, Hash, std::equal_to<>> numbers_;
};

/// Brings a track's ranges into order and gives each its row. Ranges that end before they start end where they start.
void arrange(RangeTrack& track);
/// Arranges each, drops those without ranges, and sorts them: by group, then kind, then name, numbers by their value.
void arrange(std::vector<RangeTrack>& tracks);
}  // namespace pipescope
