#pragma once

// For the handler's files only.

#include "profiler/recorder/fork_lock.h"
#include "profiler/recorder/name_registry.h"

#include <cstdint>
#include <map>
#include <mutex>
#include <string_view>

namespace pipescope {
/// Names of things that a program registers under numbers with NVTX's extensions: schemas of payloads, counters.
/// Numbers are unique across domains. Make it static and never destroy it, since NVTX's C functions have no context.
/// Threading: any thread, under a lock.
class RegisteredNames {
public:
    explicit RegisteredNames(std::string_view unknown) : unknown_(NameRegistry::of_process().text(unknown)) {
        hold_across_forks(mutex_);
    }

    /// Returns `id`, or a new one if it is 0.
    std::uint64_t add(std::string_view name, std::uint64_t id) {
        const std::uint32_t text = NameRegistry::of_process().text(cut_text(name));
        const std::scoped_lock lock(mutex_);
        id = id == 0 ? ++last_ : id;
        texts_[id] = text;
        return id;
    }
    /// The name's number in the NameRegistry.
    std::uint32_t text_of(std::uint64_t id) const {
        const std::scoped_lock lock(mutex_);
        const auto found = texts_.find(id);
        return found == texts_.end() ? unknown_ : found->second;
    }

private:
    const std::uint32_t unknown_;
    mutable std::mutex mutex_;
    std::map<std::uint64_t, std::uint32_t> texts_;
    std::uint64_t last_ = std::uint64_t{1} << 32U;  // programs choose smaller numbers (NVTX_.._ID_DYNAMIC_START)
};
}  // namespace pipescope
