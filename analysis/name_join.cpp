#include "analysis/name_join.h"

#include "trace/store/range_tracks.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <numeric>
#include <string_view>
#include <utility>

namespace pipescope {
namespace {
/// The text with a # for each number.
std::string without_numbers(std::string_view text) {
    std::string plain;
    for (const char each : text) {
        if (std::isdigit(static_cast<unsigned char>(each)) == 0) {
            plain += each;
        } else if (!plain.ends_with('#')) {
            plain += '#';
        }
    }
    return plain;
}

using TrackPair = std::pair<const RangeTrack*, const RangeTrack*>;  // before, after; null: no such track

/// Pairs tracks of equal keys in order, and removes them from both lists.
template <class Key>
void pair_up(std::vector<const RangeTrack*>& before, std::vector<const RangeTrack*>& after, const Key& key,
             std::vector<TrackPair>& pairs) {
    for (const RangeTrack*& track : before) {
        const auto twin = std::find_if(after.begin(), after.end(), [&](const RangeTrack* each) {
            return each != nullptr && each->kind == track->kind && key(*each) == key(*track);
        });
        if (twin != after.end()) {
            pairs.emplace_back(std::exchange(track, nullptr), std::exchange(*twin, nullptr));
        }
    }
    std::erase(before, nullptr);
    std::erase(after, nullptr);
}

std::vector<TrackPair> paired_tracks(const OpenedTrace& before, const OpenedTrace& after) {
    const auto tracks_of = [](const OpenedTrace& trace) {
        std::vector<const RangeTrack*> tracks;
        for (const RangeTrack& track : trace.tracks) {
            tracks.push_back(&track);
        }
        return tracks;
    };
    std::vector<const RangeTrack*> old_tracks = tracks_of(before);
    std::vector<const RangeTrack*> new_tracks = tracks_of(after);
    std::vector<TrackPair> pairs;
    pair_up(
        old_tracks, new_tracks, [](const RangeTrack& track) { return std::pair(track.group, track.name); }, pairs);
    pair_up(
        old_tracks, new_tracks,
        [](const RangeTrack& track) { return std::pair(without_numbers(track.group), without_numbers(track.name)); },
        pairs);
    pair_up(  // the runs may have been on other GPUs: "GPU 3 (NVIDIA A100)" and "GPU 0 (Tesla V100)"
        old_tracks, new_tracks,
        [](const RangeTrack& track) {
            return is_of_device(track.kind) ? std::pair(std::string("GPU"), without_numbers(track.name))
                                            : std::pair(track.group, track.name);
        },
        pairs);
    for (const RangeTrack* track : old_tracks) {
        pairs.emplace_back(track, nullptr);
    }
    for (const RangeTrack* track : new_tracks) {
        pairs.emplace_back(nullptr, track);
    }
    return pairs;
}

/// Durations by name, in order of start.
std::map<std::string_view, std::vector<Nanoseconds>> by_name(const RangeTrack* track, const OpenedTrace& trace) {
    std::map<std::string_view, std::vector<Nanoseconds>> durations;
    if (track != nullptr) {
        for (const TraceRange& range : track->ranges) {
            durations[without_call(trace.names.at(range.name))].push_back(range.duration());
        }
    }
    return durations;
}

NamedRanges joined(const std::vector<Nanoseconds>& before, const std::vector<Nanoseconds>& after) {
    NamedRanges ranges;
    const std::size_t matched = std::min(before.size(), after.size());
    for (std::size_t k = 0; k < matched; ++k) {
        ranges.before += before[k];
        ranges.after += after[k];
    }
    const auto rest = static_cast<std::ptrdiff_t>(matched);
    ranges.before_alone = std::accumulate(before.begin() + rest, before.end(), Nanoseconds{0});
    ranges.after_alone = std::accumulate(after.begin() + rest, after.end(), Nanoseconds{0});
    ranges.matched = static_cast<std::int64_t>(matched);
    ranges.only_before = static_cast<std::int64_t>(before.size() - matched);
    ranges.only_after = static_cast<std::int64_t>(after.size() - matched);
    return ranges;
}
}  // namespace

NameJoin join_by_name(const OpenedTrace& before, const OpenedTrace& after) {
    NameJoin join;
    for (const auto& [old_track, new_track] : paired_tracks(before, after)) {
        auto old_names = by_name(old_track, before);
        auto new_names = by_name(new_track, after);
        for (const auto& [name, durations] : old_names) {
            new_names.try_emplace(name);
        }
        const RangeTrack& shown = new_track != nullptr ? *new_track : *old_track;
        for (const auto& [name, durations] : new_names) {
            NamedRanges ranges = joined(old_names[name], durations);
            ranges.track = shown.group.empty() ? shown.name : shown.group + ", " + shown.name;
            ranges.name = name;
            join.matched += ranges.matched;
            join.only_before += ranges.only_before;
            join.only_after += ranges.only_after;
            join.names.push_back(std::move(ranges));
        }
    }
    std::stable_sort(join.names.begin(), join.names.end(), [](const NamedRanges& a, const NamedRanges& b) {
        return std::chrono::abs(a.after - a.before) > std::chrono::abs(b.after - b.before);
    });
    return join;
}
}  // namespace pipescope
