#include "trace/store/range_tracks.h"

#include <algorithm>
#include <cctype>
#include <iterator>
#include <tuple>
#include <utility>

namespace pipescope {
namespace {
/// Assigns a row to each range: the first free row below the ranges that contain it.
class RowAssignment {
public:
    std::uint16_t place(const TraceRange& range) {
        std::size_t row = 0;
        for (std::size_t k = 0; k < ends_.size(); ++k) {
            if (ends_[k] >= range.end && ends_[k] > range.start) {
                row = k + 1;  // ranges arrive by start, so this one started earlier
            }
        }
        while (row < ends_.size() && ends_[row] > range.start) {
            ++row;
        }
        row = std::min<std::size_t>(row, RangeTrack::kMostRows - 1);
        if (row >= ends_.size()) {
            ends_.resize(row + 1, Nanoseconds::min());
        }
        ends_[row] = std::max(ends_[row], range.end);
        return static_cast<std::uint16_t>(row);
    }
    std::uint16_t used() const { return static_cast<std::uint16_t>(ends_.size()); }

private:
    std::vector<Nanoseconds> ends_;  // of the last range in each row
};

/// Orders names with numbers by value: "stream 7" before "stream 12".
bool before(std::string_view a, std::string_view b) {
    const auto digit = [](char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; };
    while (!a.empty() && !b.empty()) {
        if (digit(a[0]) && digit(b[0])) {
            const auto number = [&](std::string_view& text) {
                text.remove_prefix(std::min(text.find_first_not_of('0'), text.size()));
                const std::string_view digits = text.substr(0, std::ranges::find_if_not(text, digit) - text.begin());
                text.remove_prefix(digits.size());
                return std::pair(digits.size(), digits);
            };
            const auto first = number(a);
            const auto second = number(b);
            if (first != second) {
                return first < second;
            }
        } else if (a[0] != b[0]) {
            return a[0] < b[0];
        } else {
            a.remove_prefix(1);
            b.remove_prefix(1);
        }
    }
    return a.size() < b.size();
}
}  // namespace

std::uint32_t NameTable::number_of(std::string_view text) {
    const auto found = numbers_.find(text);
    if (found != numbers_.end()) {
        return found->second;
    }
    const auto number = static_cast<std::uint32_t>(texts_.size());
    numbers_.emplace(texts_.emplace_back(text), number);
    return number;
}

std::vector<std::string> NameTable::take() {
    numbers_.clear();
    std::vector<std::string> texts(std::make_move_iterator(texts_.begin()), std::make_move_iterator(texts_.end()));
    texts_.clear();
    return texts;
}

std::string_view without_call(std::string_view name) {
    std::size_t end = name.size();
    for (const std::string_view part : {", op_id = ", ", seq = ", ", sizes = "}) {
        end = std::min(end, name.find(part));
    }
    return name.substr(0, end);
}

std::size_t arrange(RangeTrack& track) {
    const std::size_t removed =
        std::erase_if(track.ranges, [](const TraceRange& range) { return range.end < range.start; });
    std::ranges::stable_sort(track.ranges, [](const TraceRange& a, const TraceRange& b) {
        return std::tie(a.start, b.end) < std::tie(b.start, a.end);
    });
    RowAssignment rows;
    for (TraceRange& range : track.ranges) {
        range.row = rows.place(range);
    }
    track.rows = rows.used();
    return removed;
}

std::size_t arrange(std::vector<RangeTrack>& tracks) {
    std::size_t removed = 0;
    for (RangeTrack& track : tracks) {
        removed += arrange(track);
    }
    std::erase_if(tracks, [](const RangeTrack& track) { return track.ranges.empty(); });
    const auto place = [](const RangeTrack& track) {  // annotations follow their stream
        return track.kind == RangeTrack::Kind::annotations ? RangeTrack::Kind::stream : track.kind;
    };
    std::ranges::stable_sort(tracks, [&](const RangeTrack& a, const RangeTrack& b) {
        if (a.group != b.group) {
            return before(a.group, b.group);
        }
        return place(a) != place(b) ? place(a) < place(b) : before(a.name, b.name);
    });
    return removed;
}

namespace {
/// PyTorch's profiler shows host ranges and waits among a stream's kernels.
bool is_annotation(std::string_view category) {
    return category == "gpu_user_annotation" || category == "cuda_sync";
}

/// Ranges keep their order; those that stay also keep their addresses.
void separate_annotations(std::vector<RangeTrack>& tracks, const NameTable& names) {
    std::vector<bool> of_annotations(names.size());
    for (std::uint32_t k = 0; k < names.size(); ++k) {
        of_annotations[k] = is_annotation(names.text(k));
    }
    const auto belongs = [&](const TraceRange& range) { return of_annotations.at(range.category); };
    std::vector<RangeTrack> separate;
    for (RangeTrack& track : tracks) {
        const auto count = static_cast<std::size_t>(std::ranges::count_if(track.ranges, belongs));
        if (count == 0) {
            continue;
        }
        const bool has_suffix = track.name.ends_with(kAnnotationsSuffix);  // from a trace that was joined or exported
        const std::string name = has_suffix ? track.name : track.name + std::string(kAnnotationsSuffix);
        if (count == track.ranges.size()) {
            track.kind = RangeTrack::Kind::annotations;
            track.name = name;
            continue;
        }
        RangeTrack& own = separate.emplace_back();
        own.kind = RangeTrack::Kind::annotations;
        own.group = track.group;
        own.name = name;
        own.process = track.process;
        std::ranges::copy_if(track.ranges, std::back_inserter(own.ranges), belongs);
        std::erase_if(track.ranges, belongs);
    }
    std::ranges::move(separate, std::back_inserter(tracks));
}
}  // namespace

void arrange_tracks(OpenedTrace& trace, const NameTable& names) {
    separate_annotations(trace.tracks, names);
    if (const std::size_t removed = arrange(trace.tracks); removed > 0) {
        trace.diagnostics.push_back(
            {"warning", "import",
             std::to_string(removed) +
                 (removed == 1 ? " range ends before it starts and is left out; the trace may be damaged"
                               : " ranges end before they start and are left out; the trace may be damaged")});
    }
}
}  // namespace pipescope
