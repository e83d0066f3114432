#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace pipescope::fake_accelerator {
// Uses of device memory that no event orders: found when they are enqueued, whatever the timing.
//
// Idea: a vector clock. Each stream counts its kernels, and knows how far every other stream must have got before its
// next kernel starts: by the events it waits for, and by the streams that the enqueuing thread waited for. A kernel
// that uses memory which another stream used last, at least one of them writing, must know of that use. Stricter than
// it must be: a thread that waits for an event, or asks whether it has passed, learns nothing by that, since what it
// asks depends on timing; but memory is free to be given out again once any thread saw its use pass.

inline constexpr std::size_t kMostStreams = 66;

class Clock {
public:
    /// From now on all that `other` knows is known here.
    void merge(const Clock& other);
    bool covers(const Clock& other) const;

    std::array<std::uint64_t, kMostStreams> counts{};  ///< kernels, by Stream::number()
};

/// What the calling thread has waited for.
Clock& known_to_thread();
/// What any thread has seen pass.
Clock seen_by_any();
void see(const Clock& moment);

/// The last uses of one block of memory.
class MemoryUses {
public:
    /// By a kernel that `knows` so much, itself included; `name` is for the report.
    void read(const std::string& name, std::size_t stream, const Clock& knows);
    void write(const std::string& name, std::size_t stream, const Clock& knows);

private:
    Clock writes_;
    Clock reads_;
    std::string last_writer_;
    std::string last_reader_;
};

/// One sentence each, since the last call.
std::vector<std::string> take_races();
}  // namespace pipescope::fake_accelerator
