#pragma once

#include "profiler/recorder/cupti_library.h"

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

namespace pipescope {
/// Buffers that CUPTI fills with records, a bounded number of them. Where all are in use a small one is handed out
/// whose records are counted and thrown away, since older versions of CUPTI crash when they get none. All are handed
/// out full of zeros, which CUPTI needs and would write itself, on a thread of the program's.
/// Threading: acquire() and complete() from CUPTI's callbacks on any thread, the rest from the drain thread. The lock
/// is held for a few moves only, never while CUPTI is called.
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

    /// Null only where there is no memory at all.
    std::uint8_t* acquire(std::size_t& bytes) noexcept;
    void complete(const Filled& filled) noexcept;

    /// What was completed since the last call, oldest first; each must be given back.
    std::vector<Filled> take_completed();
    void give_back(std::uint8_t* data);
    /// Frees what CUPTI does not hold. It may still complete, or ask for, a buffer afterwards.
    void free_unused();
    /// Records of buffers that were handed out beyond the bound.
    std::int64_t thrown_away() const;
    std::size_t most_in_use() const;
    /// Held now, bytes of overflow apart.
    std::size_t bytes() const;

private:
    bool is_overflow(const std::uint8_t* data) const;

    decltype(&::cuptiActivityGetNextRecord) next_record_;
    const std::size_t buffer_bytes_;
    const std::size_t most_buffers_;

    mutable std::mutex mutex_;  // guards what follows
    std::vector<std::uint8_t*> all_;
    std::vector<std::uint8_t*> free_;
    std::vector<Filled> completed_;
    std::int64_t thrown_away_ = 0;
    std::size_t most_in_use_ = 0;
};
}  // namespace pipescope
