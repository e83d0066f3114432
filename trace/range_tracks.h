#pragma once

#include "trace/opened_trace.h"

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace pipescope {
/// Assigns numbers to distinct texts. 0 is the empty text.
class NameTable {
public:
    NameTable() { number_of(""); }

    std::uint32_t number_of(std::string_view text);
    /// Returns the texts by number, and empties the table.
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

/// Sorts a track's ranges and assigns rows. A range that ends before its start gets length zero.
void arrange(RangeTrack& track);
/// Arranges all tracks, removes empty ones, and sorts them by group, kind and name, with numbers by value.
void arrange(std::vector<RangeTrack>& tracks);
}  // namespace pipescope
