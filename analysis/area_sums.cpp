#include "analysis/area_sums.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <tuple>

namespace pipescope {
namespace {
constexpr std::uint64_t kNoOuter = UINT32_MAX;

std::uint64_t pair_of(std::uint64_t high, std::uint64_t low) {
    return high << 32 | low;
}

constexpr std::int64_t kMostEqualBins = 40;
constexpr std::int64_t kWide = 20;  // longest against shortest

/// 1, 2 or 5 times a power of ten, so that at most kMostEqualBins of them reach over `length`.
std::int64_t round_width(std::int64_t length) {
    std::int64_t decade = 1;
    for (;; decade *= 10) {
        for (const std::int64_t each : {1, 2, 5}) {
            if (length / (each * decade) < kMostEqualBins) {
                return each * decade;
            }
        }
    }
}

/// Borders of which the first is not above `least`, and the last is above `most`.
std::vector<std::int64_t> borders(std::int64_t least, std::int64_t most) {
    std::vector<std::int64_t> found;
    if (most / std::max<std::int64_t>(1, least) < kWide) {
        const std::int64_t width = round_width(most - least);
        for (std::int64_t border = least / width * width;; border += width) {
            found.push_back(border);
            if (border > most || border == INT64_MAX) {
                return found;
            }
            if (border > INT64_MAX - width) {
                found.push_back(INT64_MAX);
                return found;
            }
        }
    }
    constexpr std::array kTimes{10, 12, 15, 20, 25, 30, 40, 50, 60, 80};  // tenths
    found.push_back(0);
    for (std::int64_t decade = 1; found.back() <= most; decade *= 10) {
        if (decade > INT64_MAX / kTimes.back()) {
            found.push_back(INT64_MAX);
            break;
        }
        for (const std::int64_t each : kTimes) {
            const std::int64_t border = each * decade / 10;
            if (border * 10 == each * decade && found.back() <= most) {
                found.push_back(border);
            }
        }
    }
    const auto first = std::ranges::upper_bound(found, least) - 1;
    found.erase(found.begin(), first);
    return found;
}
}  // namespace

void AreaSumming::take(Group& group, std::int64_t length, std::uint64_t id) {
    group.lengths.push_back(length);
    if (length > group.most) {
        group.most = length;
        group.longest = id;
    }
}

std::size_t AreaSumming::call_of(std::optional<std::size_t> outer, std::uint32_t name) {
    const auto [found, is_new] = numbers_.try_emplace(pair_of(outer ? *outer : kNoOuter, name), calls_.size());
    if (is_new) {
        CallInArea call;
        call.name = name;
        call.outer = outer;
        calls_.push_back(call);
        most_.push_back(-1);
        counted_.emplace_back();
    }
    return found->second;
}

std::int64_t AreaSumming::take_new(Counted& counted, const TimeRange& part) {
    if (part.start < counted.start) {
        return part.start;  // out of order: whole
    }
    const std::int64_t from = std::clamp(counted.end, part.start, part.end);
    counted = {part.start, std::max(counted.end, part.end)};
    return from;
}

void AreaSumming::add(const AreaItem& item) {
    const bool is_mark = item.range.length() == 0;
    const TimeRange inside{std::max(item.range.start, area_.start), std::min(item.range.end, area_.end)};
    if (inside.length() < 0 || (inside.length() == 0 && !is_mark)) {
        return;
    }
    if (!own_ || own_->first != item.place) {
        open_.clear();
        own_ = {item.place, call_of(std::nullopt, item.place)};
    }
    const auto is_around = [&](const Open& each) {
        return each.depth < item.depth && (item.belongs || item.range.end <= each.end);
    };
    while (!open_.empty() && !is_around(open_.back())) {
        open_.pop_back();
    }
    const std::size_t outer = open_.empty() ? own_->second : open_.back().call;
    const std::size_t number = call_of(outer, item.name);
    Group& group = groups_[pair_of(item.name, item.place)];
    take(group, item.range.length(), item.id);
    group.inside += inside.end - take_new(group.counted, inside);
    const std::int64_t from = take_new(counted_[number], inside);
    CallInArea& call = calls_[number];
    ++call.count;
    call.inside += inside.end - from;
    call.self += inside.end - from;
    group.self += inside.end - from;
    if (item.range.length() > most_[number]) {
        most_[number] = item.range.length();
        call.longest = item.id;
    }
    if (open_.empty()) {
        CallInArea& place = calls_[own_->second];
        ++place.count;
        place.inside += inside.end - take_new(counted_[own_->second], inside);
        if (item.range.length() > most_[own_->second]) {
            most_[own_->second] = item.range.length();
            place.longest = item.id;
        }
    } else {
        // Items within may overlap, such as kernels of two streams, and may end after the one around them.
        Open& around = open_.back();
        const TimeRange shared{std::max(inside.start, around.covered), std::min(inside.end, around.end)};
        if (shared.length() > 0) {
            around.covered = shared.end;
            calls_[outer].self -= shared.length();
            around.group->self -= shared.length();
        }
    }
    open_.push_back({item.depth, item.range.end, from, number, &group});
}

NameInArea AreaSumming::named(std::uint32_t name, std::optional<std::uint32_t> place, Group& group) {
    NameInArea sum;
    sum.name = name;
    sum.place = place;
    sum.lengths = length_figures(group.lengths);
    sum.inside = group.inside;
    sum.self = group.self;
    sum.longest = group.longest;
    return sum;
}

AreaSums AreaSumming::sums() {
    std::vector<std::uint64_t> keys;
    keys.reserve(groups_.size());
    for (const auto& [key, group] : groups_) {
        keys.push_back(key);
    }
    std::ranges::sort(keys);
    AreaSums sums;
    sums.calls = calls_;
    for (std::size_t first = 0; first < keys.size();) {
        const auto name = static_cast<std::uint32_t>(keys[first] >> 32);
        Group together;
        std::size_t end = first;
        for (; end < keys.size() && keys[end] >> 32 == name; ++end) {
            const Group& group = groups_[keys[end]];
            together.lengths.insert(together.lengths.end(), group.lengths.begin(), group.lengths.end());
            together.inside += group.inside;
            together.self += group.self;
            if (group.most > together.most) {
                together.most = group.most;
                together.longest = group.longest;
            }
        }
        sums.names.push_back(named(name, std::nullopt, together));
        for (; first < end; ++first) {
            sums.names.push_back(named(name, static_cast<std::uint32_t>(keys[first]), groups_[keys[first]]));
        }
    }
    return sums;
}

std::vector<LengthBin> length_bins(const std::vector<MeasuredLength>& lengths) {
    if (lengths.empty()) {
        return {};
    }
    const auto [least, most] = std::ranges::minmax_element(lengths, {}, &MeasuredLength::length);
    const std::vector<std::int64_t> edges = borders(least->length, most->length);
    std::vector<LengthBin> bins;
    for (std::size_t k = 0; k + 1 < edges.size(); ++k) {
        bins.push_back({edges[k], edges[k + 1], 0, 0});
    }
    for (const MeasuredLength& each : lengths) {
        LengthBin& bin = *(std::ranges::upper_bound(bins, each.length, {}, &LengthBin::from) - 1);
        ++bin.count;
        bin.inside += each.is_inside ? 1 : 0;
    }
    return bins;
}
}  // namespace pipescope
