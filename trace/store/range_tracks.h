#pragma once

#include "trace/store/opened_trace.h"

#include <cstddef>
#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace pipescope {
/// Assigns numbers to distinct texts. 0 is the empty text.
class NameTable {
public:
    NameTable() { number_of(""); }
    NameTable(const NameTable&) = delete;
    NameTable& operator=(const NameTable&) = delete;

    std::uint32_t number_of(std::string_view text);
    /// Returns the texts by number, and empties the table.
    std::vector<std::string> take();
    const std::string& text(std::uint32_t number) const { return texts_.at(number); }
    std::size_t size() const { return texts_.size(); }

private:
    std::deque<std::string> texts_;  // whose addresses stay, for the keys below
    std::unordered_map<std::string_view, std::uint32_t> numbers_;
};

/// The operator in a call's name as torch's emit_nvtx() writes it: "aten::mm" of "aten::mm, seq = 3, op_id = 7, sizes =
/// [[2, 3]]". Other names stay.
std::string_view without_call(std::string_view name);

/// Ends the name of a track of annotations: "stream 7, annotations".
inline constexpr std::string_view kAnnotationsSuffix = ", annotations";

/// Sorts a track's ranges and assigns rows. Removes ranges that end before they start, and returns their number.
std::size_t arrange(RangeTrack& track);
/// Arranges all tracks, removes empty ones, and sorts them by group, kind and name, comparing numbers by value. Returns
/// the number of removed ranges, which end before they start.
std::size_t arrange(std::vector<RangeTrack>& tracks);
/// Arranges the tracks of a trace, whose texts are in `names`. Moves annotations from streams to separate tracks. A
/// diagnostic says how many ranges were left out.
void arrange_tracks(OpenedTrace& trace, const NameTable& names);
}  // namespace pipescope
