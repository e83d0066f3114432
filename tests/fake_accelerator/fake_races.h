#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace pipescope::fake_accelerator {
// Detects uses of device memory that no event orders when they are enqueued, whatever the timing.
//
// Idea: a vector clock. Each stream counts its kernels, and knows the progress of every other stream that its next
// kernel requires: from events it waits for, and from streams that the enqueuing thread waited for. If a kernel uses
// memory last used by another stream, and one of them writes, it must know of that use. This is stricter than
// necessary: a thread that waits for an event, or queries it, learns nothing, since that depends on timing. But memory
// may be reused once any thread saw its use pass.

inline constexpr std::size_t kMostConnections = 60;  // of fake_messages.cpp at a time; each has a stream of its own
inline constexpr std::size_t kMostStreams = 198;

class Clock {
public:
    /// Adds the knowledge of `other`.
    void merge(const Clock& other);
    bool covers(const Clock& other) const;

    std::array<std::uint64_t, kMostStreams> counts{};  ///< kernels, by Stream::number()
};

/// Progress that the calling thread has waited for.
Clock& known_to_thread();
/// Progress that any thread has seen.
Clock seen_by_any();
void see(const Clock& moment);

class MemoryUses {
public:
    /// A use by a kernel that `knows` this much, itself included. `name` is for the report.
    void read(const std::string& name, std::size_t stream, const Clock& knows);
    void write(const std::string& name, std::size_t stream, const Clock& knows);

private:
    Clock writes_;
    Clock reads_;
    std::string last_writer_;
    std::string last_reader_;
};

/// The races since the last call, one sentence each.
std::vector<std::string> take_races();
}  // namespace pipescope::fake_accelerator
