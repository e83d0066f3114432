#pragma once

#include "base/ids.h"

#include <cstdint>
#include <map>
#include <set>
#include <vector>

namespace pipescope {
/// PyTorch's setting of the same name (PYTORCH_CUDA_ALLOC_CONF).
struct CachingAllocatorOptions {
    bool expandable_segments = false;
};

/// Models what PyTorch's caching allocator reserves from a CUDA device for a sequence of allocations and frees. Needs
/// no device.
///
/// Idea: sizes are rounded up to 512 B. Requests up to 1 MiB come from the small pool, whose segments are 2 MiB. Larger
/// ones come from the large pool: below 10 MiB its segments are 20 MiB, otherwise the size rounded up to 2 MiB. A
/// request takes the smallest free block of its pool and stream that fits, and splits off the remainder (512 B or more
/// in the small pool, above 1 MiB in the large one). A freed block merges with its free neighbours in the segment;
/// segments stay reserved. With expandable segments a stream's pool is one segment that grows by whole pages, 2 MiB
/// small and 20 MiB large. Not modelled: a device that is full, where unused segments are returned; max_split_size;
/// roundup_power2_divisions and garbage_collection_threshold, off by default; private pools of CUDA graphs; blocks used
/// on a second stream, which wait for its events. Source: pytorch c10/cuda/CUDACachingAllocator.cpp (kMinBlockSize,
/// kSmallSize, kSmallBuffer, kLargeBuffer, kMinLargeAlloc, kRoundLarge; get_free_block, should_split) and its comment
/// "Yet another caching allocator for CUDA device allocations".
class CachingAllocator {
public:
    using Block = std::int64_t;

    explicit CachingAllocator(CachingAllocatorOptions options = {}) : options_(options) {}

    /// Precondition: bytes >= 0; 0 takes no memory.
    Block allocate(Bytes bytes, int stream = 0);
    /// Precondition: the block is allocated.
    void free(Block block);

    Bytes allocated() const { return allocated_; }  ///< rounded sizes, as memory_allocated() gives them
    Bytes reserved() const { return reserved_; }
    /// Bytes reserved for one stream.
    Bytes reserved(int stream) const;

private:
    struct Pool {
        bool small = false;
        int stream = 0;
        friend auto operator<=>(const Pool&, const Pool&) = default;
    };
    struct Chunk {  // a block in the allocator's words
        Pool pool;
        Bytes address = 0;  ///< in a space of the model's own; segments never touch
        Bytes size = 0;
        std::int64_t segment = 0;
        bool used = false;
        Block previous = -1;
        Block next = -1;
    };
    struct FreeKey {
        Bytes size;
        Bytes address;
        Block block;
        friend auto operator<=>(const FreeKey&, const FreeKey&) = default;
    };

    Block new_segment(const Pool& pool, Bytes size);
    Block grow_segment(const Pool& pool, Bytes size);
    void reserve(Bytes bytes, int stream);
    bool may_split(const Chunk& chunk, Bytes size) const;
    void use(Block block, Bytes size);
    Block add_chunk(const Chunk& chunk);
    void link_behind(Block block, Block behind);
    void merge_with_next(Block block);
    void remove_free(Block block);
    void add_free(Block block);

    CachingAllocatorOptions options_;
    std::map<Block, Chunk> chunks_;
    std::map<Pool, std::set<FreeKey>> free_;
    std::map<Pool, Block> last_of_expandable_;  // the chunk at the end of each pool's segment
    std::map<int, Bytes> reserved_of_stream_;
    Block next_block_ = 0;
    std::int64_t next_segment_ = 0;
    Bytes next_address_ = 0;
    Bytes allocated_ = 0;
    Bytes reserved_ = 0;
};
}  // namespace pipescope
