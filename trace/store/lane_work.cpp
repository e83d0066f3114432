#include "trace/store/lane_work.h"

#include <algorithm>
#include <array>
#include <tuple>
#include <utility>

namespace pipescope {
namespace {
constexpr std::array kKinds{LaneWorkKind::collective, LaneWorkKind::optimizer,       LaneWorkKind::loading,
                            LaneWorkKind::data,       LaneWorkKind::collective_wait, LaneWorkKind::collective_slow};
}  // namespace

std::string_view to_string(LaneWorkKind kind) {
    switch (kind) {
        case LaneWorkKind::collective: return "collective";
        case LaneWorkKind::optimizer: return "optimizer";
        case LaneWorkKind::loading: return "loading";
        case LaneWorkKind::data: return "data";
        case LaneWorkKind::collective_wait: return "collective_wait";
        case LaneWorkKind::collective_slow: return "collective_slow";
    }
    return "unknown";
}

std::optional<LaneWorkKind> parse_lane_work_kind(std::string_view text) {
    const auto* const found = std::ranges::find_if(kKinds, [&](LaneWorkKind kind) { return to_string(kind) == text; });
    return found == kKinds.end() ? std::nullopt : std::optional(*found);
}

std::vector<LaneWork> joined_work(std::vector<LaneWork> work) {
    std::ranges::sort(work, [](const LaneWork& a, const LaneWork& b) {
        return std::tie(a.lane, a.kind, a.start, a.end) < std::tie(b.lane, b.kind, b.start, b.end);
    });
    std::vector<LaneWork> all;
    for (const LaneWork& each : work) {
        LaneWork* const last = all.empty() ? nullptr : &all.back();
        if (last != nullptr && last->lane == each.lane && last->kind == each.kind && each.start <= last->end) {
            last->end = std::max(last->end, each.end);
        } else {
            all.push_back(each);
        }
    }
    return all;
}

Nanoseconds covered_time(std::vector<std::pair<Nanoseconds, Nanoseconds>> ranges) {
    std::ranges::sort(ranges);
    Nanoseconds total{0};
    Nanoseconds until = Nanoseconds::min();
    for (const auto& [start, end] : ranges) {
        if (end > until) {
            total += end - std::max(start, until);
            until = end;
        }
    }
    return total;
}

bool is_collective_kernel(std::string_view name) {
    constexpr std::array<std::string_view, 6> kCollectives{"AllReduce", "ReduceScatter", "AllGather",
                                                           "Broadcast", "Reduce",        "AllToAll"};
    return name.starts_with("nccl") && std::ranges::any_of(kCollectives, [&](std::string_view each) {
               return name.find(each) != std::string_view::npos;
           });
}

bool is_optimizer_kernel(std::string_view name) {
    constexpr std::array<std::string_view, 7> kOptimizers{"multi_tensor_", "Adam", "adam_", "adamw",
                                                          "Sgd",           "sgd_", "lamb_"};
    return std::ranges::any_of(kOptimizers,
                               [&](std::string_view each) { return name.find(each) != std::string_view::npos; });
}
}  // namespace pipescope
