#pragma once

#include <cupti.h>

#include <cstddef>
#include <cstdint>

/// What a test makes the fake CUPTI record; found with dlsym. A record of a kind that is not enabled is ignored.
struct FakeCupti {
    /// Copies one activity record into the current buffer.
    void (*emit)(const void* record, std::size_t bytes);
    /// Now, on the clock CUPTI was told to use.
    std::uint64_t (*now)();
    /// The same with work that still runs: until finish_all() a flush must be forced to get its buffer.
    void (*emit_unfinished)(const void* record, std::size_t bytes);
    /// Gives it its end.
    void (*finish_all)(std::uint64_t end);
};
extern "C" const FakeCupti fake_cupti;
