#pragma once

#include <cupti.h>

#include <cstddef>
#include <cstdint>

/// Functions for tests to emit records in the fake CUPTI; found with dlsym. Ignores records of a disabled kind.
struct FakeCupti {
    /// Copies one activity record into the current buffer.
    void (*emit)(const void* record, std::size_t bytes);
    /// The current time on the clock that CUPTI was told to use.
    std::uint64_t (*now)();
    /// Emits an unfinished record. Until finish_all(), only a forced flush delivers its buffer.
    void (*emit_unfinished)(const void* record, std::size_t bytes);
    /// Sets the end of unfinished records.
    void (*finish_all)(std::uint64_t end);
};
extern "C" const FakeCupti fake_cupti;
