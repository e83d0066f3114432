#pragma once

#include "gui/timeline/timeline_store.h"
#include "gui/timeline/timeline_store_builder.h"

#include <QString>

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace pipescope {
/// Device work of one task. Times in ns.
struct TaskDeviceWork {
    std::int64_t kernels = 0;
    std::int64_t copies = 0;       ///< includes fills
    std::int64_t span = 0;         ///< from its first work's start to its last work's end
    std::int64_t busy = 0;         ///< the part of the span in which some of its work ran
    std::int64_t launchDelay = 0;  ///< from its first launching call to the start of that work
};

/// "on the device: kernels 12, copies and fills 1, busy 3.1 ms of 3.4 ms, launch delay 4.5 µs"
QString describe(const TaskDeviceWork& work);

/// One kernel, copy or fill.
struct Kernel {
    std::string name;
    TaskKey task;  ///< the task that launched it
    LaneId lane;   ///< lane of the task
    std::int64_t start = 0;
    std::int64_t end = 0;
    std::int64_t launchDelay = 0;  ///< from the launching call to the start of the kernel
};

/// Kernels, copies and fills by the lane of the task that launched them. Drawn below that lane's tasks. 33 bytes each,
/// plus the pyramid. Threading: immutable once built; shared between threads.
class KernelStore {
public:
    /// The key of a slice is that of its task.
    const TimelineStore& slices() const { return slices_; }
    Kernel kernel(SliceRef ref) const;
    /// Each name once.
    const std::vector<std::string>& names() const { return names_; }
    /// Index of the kernel's name.
    std::uint32_t nameNumber(SliceRef ref) const;
    const std::string& nameOf(SliceRef ref) const { return names_.at(nameNumber(ref)); }
    /// Empty if the task launched no device work.
    std::optional<TaskDeviceWork> workOf(const TaskKey& task) const;

private:
    friend class KernelStoreBuilder;

    struct Facts {
        std::uint32_t name = 0;
        std::uint32_t launchDelay = 0;  // ns; at most 4.3 s
    };
    TimelineStore slices_;
    std::vector<Facts> facts_;
    std::vector<std::string> names_;
    std::unordered_map<std::uint64_t, TaskDeviceWork> work_;  // by packed key
};

/// Threading: one thread at a time.
class KernelStoreBuilder {
public:
    explicit KernelStoreBuilder(std::vector<LaneInfo> lanes);

    void add(const Kernel& kernel);
    void setWork(const TaskKey& task, const TaskDeviceWork& work);
    std::size_t size() const { return store_.facts_.size(); }
    /// Leaves the builder empty.
    KernelStore finish();

private:
    KernelStore store_;
    TimelineStoreBuilder slices_;
    std::unordered_map<std::string, std::uint32_t> numbers_;  // index into names_, by name
};
}  // namespace pipescope
