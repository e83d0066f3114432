#pragma once

#include "trace/opened_trace.h"

#include <cstddef>
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

/// Sorts a track's ranges and assigns rows. Removes ranges that end before they start, and returns how many.
std::size_t arrange(RangeTrack& track);
/// Arranges all tracks, removes empty ones, and sorts them by group, kind and name, with numbers by value. Returns the
/// number of ranges removed, which end before they start.
std::size_t arrange(std::vector<RangeTrack>& tracks);
/// Arranges the tracks of a trace. A diagnostic says how many ranges were left out.
void arrange_tracks(OpenedTrace& trace);
}  // namespace pipescope
