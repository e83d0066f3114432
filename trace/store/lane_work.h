#pragma once

#include "schedule/timeline.h"

#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace pipescope {
/// What occupies a lane beside the tasks of its pipeline, in another program's run on a GPU.
enum class LaneWorkKind {
    collective,       ///< a collective of NCCL, such as a sum of gradients
    optimizer,        ///< an update of parameters
    loading,          ///< a copy of data to the device
    data,             ///< no work: the host waits for its data loader
    collective_wait,  ///< part of a collective: its kernel waits for another rank's
    collective_slow,  ///< part of a collective: beyond the shortest time of its kind, once all ranks run it
};
/// The text in PIPESCOPE_LANE_WORK: "collective".
std::string_view to_string(LaneWorkKind kind);
std::optional<LaneWorkKind> parse_lane_work_kind(std::string_view text);

/// A row of PIPESCOPE_LANE_WORK.
struct LaneWork {
    LaneId lane;
    LaneWorkKind kind = LaneWorkKind::collective;
    Nanoseconds start{0};
    Nanoseconds end{0};

    friend bool operator==(const LaneWork&, const LaneWork&) = default;
};

/// Work that touches or overlaps, joined for each lane and kind. By lane, kind and start.
std::vector<LaneWork> joined_work(std::vector<LaneWork> work);
/// The time in which at least one of the ranges lasts. Each is a start and an end.
Nanoseconds covered_time(std::vector<std::pair<Nanoseconds, Nanoseconds>> ranges);

/// True for the names of kernels that only collectives have, of NCCL and RCCL: "ncclDevKernel_AllReduce_Sum_f32".
/// Kernels of messages, and kernels that may be either, are no collectives.
bool is_collective_kernel(std::string_view name);
/// True for the names of kernels that update parameters, as those of torch.optim, Apex and DeepSpeed.
bool is_optimizer_kernel(std::string_view name);
}  // namespace pipescope
