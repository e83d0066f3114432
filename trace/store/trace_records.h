#pragma once

#include "base/error.h"
#include "base/machine_load.h"
#include "schedule/timeline.h"

#include <cstdint>
#include <optional>
#include <string>

namespace pipescope {
/// A trace that cannot be written or read. The message names the file, the fault and the remedy.
class TraceError : public Error {
public:
    using Error::Error;
};

/// A file that is not a PipeScope trace, or whose version cannot be read.
class TraceFormatError : public TraceError {
public:
    using TraceError::TraceError;
};

// Rows of the PIPESCOPE_ tables. Times are ns since the start of the recording.

/// The load of the machine up to the end of a step.
struct StepLoad {
    MachineLoad shares;
    /// The measured time before the step's wall_end: of this step and, if it is short, of others.
    Nanoseconds over{0};

    friend bool operator==(const StepLoad&, const StepLoad&) = default;
};

struct StepRecord {
    std::int32_t step = 0;
    Nanoseconds start{0};       ///< first forward
    Nanoseconds end{0};         ///< last backward
    Nanoseconds wall_start{0};  ///< the whole step of the training loop
    Nanoseconds wall_end{0};
    double training_loss = 0;
    bool warmup = false;
    std::int64_t samples = 0;  ///< of the mini-batch, over all replicas; 0: not recorded
    std::optional<StepLoad> load = {};

    friend bool operator==(const StepRecord&, const StepRecord&) = default;
};

/// What a device did for a task of another program, whose times are then the device's. A row of PIPESCOPE_TASK_DEVICE.
struct TaskOnDevice {
    TaskKey task;
    std::int64_t kernels = 0;
    std::int64_t copies = 0;    ///< includes fills
    Nanoseconds start{0};       ///< of its first work; of a copy: since then, both ranks run its kernel
    Nanoseconds end{0};         ///< of its last work
    Nanoseconds busy{0};        ///< between them, while some of its work ran
    Nanoseconds launch{0};      ///< start of the call that launched its first work; of a copy: of the later of its two
    Nanoseconds launch_gap{0};  ///< idle time between its work in which the host had not launched the next work
    /// From its first launch to its end, if the device only waited for launches; 0: not known.
    Nanoseconds paced{0};

    friend bool operator==(const TaskOnDevice&, const TaskOnDevice&) = default;
};

struct DropRecord {
    std::string source;  ///< "nvtx"
    std::int64_t thread = 0;
    std::int64_t recorded = 0;
    std::int64_t dropped = 0;
    std::int64_t truncated = 0;
    std::int64_t open_at_exit = 0;

    friend bool operator==(const DropRecord&, const DropRecord&) = default;
};

struct ClockRecord {
    std::int64_t realtime = 0;
    std::int64_t monotonic = 0;
    std::int64_t boottime = 0;
    std::int64_t tsc = 0;

    friend bool operator==(const ClockRecord&, const ClockRecord&) = default;
};

struct DiagnosticRecord {
    std::string severity;  ///< "info", "warning"
    std::string source;    ///< "cupti", "nvtx", "memory"
    std::string text;

    friend bool operator==(const DiagnosticRecord&, const DiagnosticRecord&) = default;
};

struct OverheadRecord {
    std::string source;  ///< "drain thread"
    std::string what;    ///< "cpu_ns", "rows"
    std::int64_t value = 0;

    friend bool operator==(const OverheadRecord&, const OverheadRecord&) = default;
};

/// One NVTX event, in the columns of nsys' NVTX_EVENTS.
struct NvtxRecord {
    std::int64_t start = 0;
    std::optional<std::int64_t> end;  ///< empty for a mark, or a range still open at exit
    int event_type = 59;              ///< 34 mark, 59 push/pop, 60 start/end, 75 domain, 33 category
    std::optional<std::int64_t> range_id;
    std::optional<std::int64_t> category;
    std::optional<std::int64_t> color;
    std::string text;
    std::int64_t global_tid = 0;
    std::optional<std::int64_t> end_global_tid;
    std::int64_t domain_id = 0;
    std::optional<std::uint64_t> uint64_value;
    std::optional<std::int64_t> int64_value;
    std::optional<double> double_value;
    std::optional<std::uint32_t> uint32_value;
    std::optional<std::int32_t> int32_value;
    std::optional<float> float_value;
};
}  // namespace pipescope
