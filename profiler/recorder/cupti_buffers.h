#pragma once

#include "profiler/recorder/cupti_library.h"

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

namespace pipescope {
/// A bounded number of buffers that CUPTI fills with records. If all are in use, CUPTI gets a small buffer whose
/// records are counted and discarded, since older versions of CUPTI crash without a buffer. All buffers are zeroed, as
/// CUPTI requires; otherwise it would zero them on a program thread.
///
/// Threading: acquire() and complete() run in CUPTI's callbacks on any thread, the rest on the drain thread. The lock
/// is held only for a few moves, never during a call of CUPTI.
class CuptiBuffers {
public:
    CuptiBuffers(decltype(&::cuptiActivityGetNextRecord) next_record, std::size_t buffer_bytes,
                 std::size_t most_buffers);
    ~CuptiBuffers();
    CuptiBuffers(const CuptiBuffers&) = delete;
    CuptiBuffers& operator=(const CuptiBuffers&) = delete;

    struct Filled {
        std::uint8_t* data = nullptr;
        std::size_t bytes = 0;
        CUcontext context = nullptr;
        std::uint32_t stream = 0;
    };

    /// Null only if memory is exhausted.
    std::uint8_t* acquire(std::size_t& bytes) noexcept;
    void complete(const Filled& filled) noexcept;

    /// Buffers completed since the last call, oldest first. Each must be given back.
    std::vector<Filled> take_completed();
    void give_back(std::uint8_t* data);
    /// Frees buffers that CUPTI does not hold. CUPTI may still complete or acquire buffers afterwards.
    void free_unused();
    /// Number of records in buffers beyond the limit.
    std::int64_t thrown_away() const;
    std::size_t most_in_use() const;
    /// Bytes currently held, without overflow buffers.
    std::size_t bytes() const;

private:
    bool is_overflow(const std::uint8_t* data) const;

    decltype(&::cuptiActivityGetNextRecord) next_record_;
    const std::size_t buffer_bytes_;
    const std::size_t most_buffers_;

    mutable std::mutex mutex_;  // guards the following members
    std::vector<std::uint8_t*> all_;
    std::vector<std::uint8_t*> free_;
    std::vector<Filled> completed_;
    std::int64_t thrown_away_ = 0;
    std::size_t most_in_use_ = 0;
};
}  // namespace pipescope
