#include "trace/store/device_launches.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

namespace pipescope {
namespace {
/// The calls of a trace by correlation.
class Calls {
public:
    explicit Calls(const std::vector<RangeTrack>& tracks) {
        for (std::uint32_t k = 0; k < tracks.size(); ++k) {
            if (is_of_device(tracks[k].kind)) {
                continue;
            }
            const auto group =
                groups_.try_emplace(tracks[k].group, static_cast<std::uint32_t>(groups_.size())).first->second;
            for (std::uint32_t at = 0; at < tracks[k].ranges.size(); ++at) {
                if (const std::uint32_t number = tracks[k].ranges[at].correlation; number != 0) {
                    processes_.emplace(tracks[k].process, group);
                    // A runtime call and the driver call inside it may have the same number. The outer one is first.
                    places_.try_emplace(key(group, number), RangeArrow::End{k, at});
                    const auto [only, fresh] = only_group_.try_emplace(number, group);
                    only->second = fresh || only->second == group ? only->second : std::nullopt;
                }
            }
        }
    }

    std::optional<RangeArrow::End> launch_of(const RangeTrack& stream, std::uint32_t correlation) const {
        const auto only = only_group_.find(correlation);
        if (only == only_group_.end()) {
            return std::nullopt;
        }
        const auto own = stream.process != 0 ? processes_.find(stream.process) : processes_.end();
        const std::optional<std::uint32_t> group = own != processes_.end() ? std::optional(own->second) : only->second;
        const auto found = group ? places_.find(key(*group, correlation)) : places_.end();
        return found != places_.end() ? std::optional(found->second) : std::nullopt;
    }

private:
    static std::uint64_t key(std::uint32_t group, std::uint32_t number) {
        return std::uint64_t{group} << 32U | std::uint64_t{number};
    }

    std::map<std::string, std::uint32_t> groups_;
    std::map<std::int64_t, std::uint32_t> processes_;                             // the group of each
    std::unordered_map<std::uint64_t, RangeArrow::End> places_;                   // by group and number
    std::unordered_map<std::uint32_t, std::optional<std::uint32_t>> only_group_;  // by number; empty: several
};
}  // namespace

std::vector<DeviceLaunch> device_launches(const OpenedTrace& trace) {
    const Calls calls(trace.tracks);
    std::vector<DeviceLaunch> launches;
    for (std::uint32_t k = 0; k < trace.tracks.size(); ++k) {
        const RangeTrack& track = trace.tracks[k];
        for (std::uint32_t at = 0; track.kind == RangeTrack::Kind::stream && at < track.ranges.size(); ++at) {
            if (const auto call = calls.launch_of(track, track.ranges[at].correlation)) {
                launches.push_back({{k, at}, *call});
            }
        }
    }
    return launches;
}

std::vector<std::size_t> threads_of_tracks(const std::vector<RangeTrack>& tracks) {
    std::map<std::pair<std::string, std::string>, std::size_t> numbers;
    std::vector<std::size_t> threads;
    for (const RangeTrack& track : tracks) {
        const bool calls = track.kind == RangeTrack::Kind::calls;  // "thread 18 (main), CUDA calls"
        const std::string name = calls ? track.name.substr(0, track.name.rfind(',')) : track.name;
        threads.push_back(numbers.try_emplace({track.group, name}, numbers.size()).first->second);
    }
    return threads;
}
}  // namespace pipescope
