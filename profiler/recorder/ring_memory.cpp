#include "profiler/recorder/ring_memory.h"

#include <sys/mman.h>

#include <cstdint>
#include <new>

namespace pipescope {
RingMemory::RingMemory(std::size_t entries) : bytes_(entries * sizeof(RangeEvent)) {
    if (entries > SIZE_MAX / sizeof(RangeEvent)) {
        throw std::bad_alloc();
    }
    void* memory = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        throw std::bad_alloc();
    }
    madvise(memory, bytes_, MADV_NOHUGEPAGE);    // fails if the system has no huge pages
    events_ = static_cast<RangeEvent*>(memory);  // entries are written before they are read
}

RingMemory::~RingMemory() {
    munmap(events_, bytes_);
}
}  // namespace pipescope
