#pragma once

#include "base/ids.h"
#include "schedule/timeline.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace pipescope {
/// A comparison of a process's clock with that of rank 0.
struct ClockReading {
    Nanoseconds at{0};      ///< on the process's own clock
    Nanoseconds offset{0};  ///< the own time plus this is the time of rank 0
    Nanoseconds bound{0};   ///< largest error of the offset; 0 if both read one clock

    friend bool operator==(const ClockReading&, const ClockReading&) = default;
};

/// One of the processes that train a pipeline together.
struct ProcessFacts {
    int rank = 0;
    int size = 1;
    std::string host;
    std::int64_t pid = 0;
    std::string run;             ///< equal in all processes of one run; empty if not recorded
    std::string boot_id;         ///< of the host's kernel
    std::string time_namespace;  ///< as in /proc/self/ns/time
    std::vector<LaneId> lanes;   ///< that it runs; empty if not recorded
    /// Before and after the training, by time; fewer if the process was killed. Rank 0 has none.
    std::vector<ClockReading> clock;

    /// "rank 2, host b"
    std::string name() const { return "rank " + std::to_string(rank) + (host.empty() ? "" : ", host " + host); }
    friend bool operator==(const ProcessFacts&, const ProcessFacts&) = default;
};

/// A process of a merged trace.
struct MergedProcess : ProcessFacts {
    /// Largest error of its times in the merged trace, relative to those of rank 0. Empty if unknown.
    std::optional<Nanoseconds> bound = Nanoseconds{0};
    bool cut_off = false;  ///< its recording was not closed

    friend bool operator==(const MergedProcess&, const MergedProcess&) = default;
};
}  // namespace pipescope
