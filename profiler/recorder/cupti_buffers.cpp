#include "profiler/recorder/cupti_buffers.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <utility>

namespace pipescope {
namespace {
constexpr std::size_t kOverflowBytes = std::size_t{64} << 10;

/// Zeroed memory, aligned to 16 bytes; CUPTI needs 8. The system provides large blocks already zeroed and untouched.
std::uint8_t* allocate(std::size_t bytes) {
    return static_cast<std::uint8_t*>(std::calloc(1, bytes));
}
}  // namespace

CuptiBuffers::CuptiBuffers(decltype(&::cuptiActivityGetNextRecord) next_record, std::size_t buffer_bytes,
                           std::size_t most_buffers)
    : next_record_(next_record), buffer_bytes_(buffer_bytes), most_buffers_(most_buffers) {
    // Prevents allocations for the lists in callbacks.
    all_.reserve(most_buffers);
    free_.reserve(most_buffers);
    completed_.reserve(most_buffers);
}

CuptiBuffers::~CuptiBuffers() {
    for (std::uint8_t* buffer : all_) {
        std::free(buffer);
    }
}

std::uint8_t* CuptiBuffers::acquire(std::size_t& bytes) noexcept {
    {
        const std::scoped_lock lock(mutex_);
        if (free_.empty() && all_.size() < most_buffers_) {
            if (std::uint8_t* fresh = allocate(buffer_bytes_)) {
                all_.push_back(fresh);
                free_.push_back(fresh);
            }
        }
        if (!free_.empty()) {
            std::uint8_t* buffer = free_.back();
            free_.pop_back();
            most_in_use_ = std::max(most_in_use_, all_.size() - free_.size());
            bytes = buffer_bytes_;
            return buffer;
        }
    }
    bytes = std::min(kOverflowBytes, buffer_bytes_);
    return allocate(bytes);
}

bool CuptiBuffers::is_overflow(const std::uint8_t* data) const {
    return std::ranges::find(all_, data) == all_.end();
}

void CuptiBuffers::complete(const Filled& filled) noexcept {
    {
        const std::scoped_lock lock(mutex_);
        if (!is_overflow(filled.data)) {
            completed_.push_back(filled);
            return;
        }
    }
    std::int64_t records = 0;
    for (CUpti_Activity* record = nullptr; next_record_(filled.data, filled.bytes, &record) == CUPTI_SUCCESS;) {
        ++records;
    }
    std::free(filled.data);
    const std::scoped_lock lock(mutex_);
    thrown_away_ += records;
}

std::vector<CuptiBuffers::Filled> CuptiBuffers::take_completed() {
    std::vector<Filled> taken;
    taken.reserve(most_buffers_);
    const std::scoped_lock lock(mutex_);
    taken.swap(completed_);
    return taken;
}

void CuptiBuffers::give_back(std::uint8_t* data) {
    std::memset(data, 0, buffer_bytes_);
    const std::scoped_lock lock(mutex_);
    free_.push_back(data);
}

void CuptiBuffers::free_unused() {
    const std::scoped_lock lock(mutex_);
    for (std::uint8_t* buffer : free_) {
        all_.erase(std::ranges::find(all_, buffer));
        std::free(buffer);
    }
    free_.clear();
}

std::size_t CuptiBuffers::bytes() const {
    const std::scoped_lock lock(mutex_);
    return all_.size() * buffer_bytes_;
}

std::int64_t CuptiBuffers::thrown_away() const {
    const std::scoped_lock lock(mutex_);
    return thrown_away_;
}

std::size_t CuptiBuffers::most_in_use() const {
    const std::scoped_lock lock(mutex_);
    return most_in_use_;
}
}  // namespace pipescope
