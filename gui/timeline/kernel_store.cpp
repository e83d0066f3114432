#include "gui/timeline/kernel_store.h"

#include "gui/style/number_format.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace pipescope {
QString describe(const TaskDeviceWork& work) {
    return translated("on the device: kernels %1, copies and fills %2, busy %3 of %4, launch delay %5")
        .arg(work.kernels)
        .arg(work.copies)
        .arg(formatDuration(work.busy), formatDuration(work.span), formatDuration(work.launchDelay));
}

Kernel KernelStore::kernel(SliceRef ref) const {
    const Slice slice = slices_.slice(ref);
    // Building the rows sorts and splits slices. This index into facts_ travels in the bytes column of the slices.
    const Facts& facts = facts_.at(static_cast<std::size_t>(slice.bytes - 1));
    return {names_.at(facts.name), slice.key,         slice.lane,
            slice.start.count(),   slice.end.count(), static_cast<std::int64_t>(facts.launchDelay)};
}

std::uint32_t KernelStore::nameNumber(SliceRef ref) const {
    return facts_.at(static_cast<std::size_t>(slices_.slice(ref).bytes - 1)).name;
}

std::optional<TaskDeviceWork> KernelStore::workOf(const TaskKey& task) const {
    const auto found = work_.find(pack(task));
    return found == work_.end() ? std::nullopt : std::optional(found->second);
}

KernelStoreBuilder::KernelStoreBuilder(std::vector<LaneInfo> lanes) : slices_(Source::measured, std::move(lanes)) {}

void KernelStoreBuilder::add(const Kernel& kernel) {
    const auto [name, added] = numbers_.try_emplace(kernel.name, static_cast<std::uint32_t>(store_.names_.size()));
    if (added) {
        store_.names_.push_back(kernel.name);
    }
    constexpr std::int64_t kLongest = std::numeric_limits<std::uint32_t>::max();
    store_.facts_.push_back(
        {name->second, static_cast<std::uint32_t>(std::clamp<std::int64_t>(kernel.launchDelay, 0, kLongest))});
    slices_.add({kernel.task, kernel.lane, Nanoseconds{kernel.start}, Nanoseconds{kernel.end},
                 static_cast<Bytes>(store_.facts_.size())});
}

void KernelStoreBuilder::setWork(const TaskKey& task, const TaskDeviceWork& work) {
    store_.work_.emplace(pack(task), work);  // if a task ran twice, the first run counts
}

KernelStore KernelStoreBuilder::finish() {
    store_.slices_ = slices_.finish();
    store_.facts_.shrink_to_fit();
    numbers_.clear();
    return std::exchange(store_, {});
}
}  // namespace pipescope
