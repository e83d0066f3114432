#include "simulator/memory/caching_allocator.h"

#include <algorithm>

namespace pipescope {
namespace {
constexpr Bytes kMinBlockSize = 512;
constexpr Bytes kSmallSize = 1 << 20;     // largest request of the small pool
constexpr Bytes kSmallBuffer = 2 << 20;   // size of its segments
constexpr Bytes kLargeBuffer = 20 << 20;  // segments of requests below kMinLargeAlloc
constexpr Bytes kMinLargeAlloc = 10 << 20;
constexpr Bytes kRoundLarge = 2 << 20;

Bytes rounded_up(Bytes bytes, Bytes to) {
    return (bytes + to - 1) / to * to;
}

Bytes segment_size(Bytes size) {
    return size <= kSmallSize ? kSmallBuffer : size < kMinLargeAlloc ? kLargeBuffer : rounded_up(size, kRoundLarge);
}
}  // namespace

CachingAllocator::Block CachingAllocator::allocate(Bytes bytes, int stream) {
    if (bytes == 0) {
        return add_chunk({.pool = {true, stream}, .used = true});  // a null pointer: costs nothing, may be freed
    }
    const Bytes size = std::max(kMinBlockSize, rounded_up(bytes, kMinBlockSize));
    const Pool pool{size <= kSmallSize, stream};
    const auto best = free_[pool].lower_bound({size, -1, -1});
    const Block block = best != free_[pool].end()      ? best->block
                        : options_.expandable_segments ? grow_segment(pool, size)
                                                       : new_segment(pool, size);
    use(block, size);
    return block;
}

void CachingAllocator::reserve(Bytes bytes, int stream) {
    reserved_ += bytes;
    reserved_of_stream_[stream] += bytes;
}

CachingAllocator::Block CachingAllocator::new_segment(const Pool& pool, Bytes size) {
    const Bytes bytes = segment_size(size);
    reserve(bytes, pool.stream);
    const Block block = add_chunk({.pool = pool, .address = next_address_, .size = bytes, .segment = next_segment_++});
    next_address_ += bytes + 1;
    add_free(block);
    return block;
}

/// Maps as many pages behind the segment's end as its last free block lacks.
CachingAllocator::Block CachingAllocator::grow_segment(const Pool& pool, Bytes size) {
    const auto last = last_of_expandable_.find(pool);
    const bool has_free_end = last != last_of_expandable_.end() && !chunks_.at(last->second).used;
    const Bytes there = has_free_end ? chunks_.at(last->second).size : 0;
    const Bytes more = rounded_up(size - there, pool.small ? kSmallBuffer : kLargeBuffer);
    reserve(more, pool.stream);
    if (has_free_end) {
        remove_free(last->second);
        chunks_.at(last->second).size += more;
        add_free(last->second);
        return last->second;
    }
    Chunk chunk{.pool = pool, .size = more};
    if (last == last_of_expandable_.end()) {
        constexpr Bytes kAddressSpace = Bytes{1} << 50;  // per pool, so that its segment can grow
        chunk.segment = next_segment_++;
        chunk.address = chunk.segment * kAddressSpace;
    } else {
        const Chunk& end = chunks_.at(last->second);
        chunk.segment = end.segment;
        chunk.address = end.address + end.size;
    }
    const Block block = add_chunk(chunk);
    if (last != last_of_expandable_.end()) {
        link_behind(block, last->second);
    }
    last_of_expandable_[pool] = block;
    add_free(block);
    return block;
}

bool CachingAllocator::may_split(const Chunk& chunk, Bytes size) const {
    const Bytes left = chunk.size - size;
    if (chunk.pool.small || options_.expandable_segments) {
        return left >= kMinBlockSize;
    }
    return left > kSmallSize;
}

void CachingAllocator::use(Block block, Bytes size) {
    remove_free(block);
    Chunk& chunk = chunks_.at(block);
    if (may_split(chunk, size)) {
        Chunk rest = chunk;
        rest.address += size;
        rest.size -= size;
        chunk.size = size;
        const Block other = add_chunk(rest);
        link_behind(other, block);
        if (const auto last = last_of_expandable_.find(chunk.pool);
            last != last_of_expandable_.end() && last->second == block) {
            last->second = other;
        }
        add_free(other);
    }
    Chunk& used = chunks_.at(block);
    used.used = true;
    allocated_ += used.size;
}

void CachingAllocator::free(Block block) {
    Chunk& chunk = chunks_.at(block);
    if (chunk.size == 0) {
        chunks_.erase(block);
        return;
    }
    chunk.used = false;
    allocated_ -= chunk.size;
    if (chunk.next >= 0 && !chunks_.at(chunk.next).used) {
        remove_free(chunk.next);
        merge_with_next(block);
    }
    if (chunk.previous >= 0 && !chunks_.at(chunk.previous).used) {
        const Block previous = chunk.previous;
        remove_free(previous);
        merge_with_next(previous);
        add_free(previous);
    } else {
        add_free(block);
    }
}

Bytes CachingAllocator::reserved(int stream) const {
    const auto found = reserved_of_stream_.find(stream);
    return found == reserved_of_stream_.end() ? 0 : found->second;
}

CachingAllocator::Block CachingAllocator::add_chunk(const Chunk& chunk) {
    const Block block = next_block_++;
    chunks_.emplace(block, chunk);
    return block;
}

void CachingAllocator::link_behind(Block block, Block behind) {
    Chunk& here = chunks_.at(block);
    Chunk& before = chunks_.at(behind);
    here.previous = behind;
    here.next = before.next;
    if (here.next >= 0) {
        chunks_.at(here.next).previous = block;
    }
    before.next = block;
}

void CachingAllocator::merge_with_next(Block block) {
    Chunk& here = chunks_.at(block);
    const Block next = here.next;
    const Chunk other = chunks_.at(next);
    here.size += other.size;
    here.next = other.next;
    if (other.next >= 0) {
        chunks_.at(other.next).previous = block;
    }
    if (const auto last = last_of_expandable_.find(here.pool);
        last != last_of_expandable_.end() && last->second == next) {
        last->second = block;
    }
    chunks_.erase(next);
}

void CachingAllocator::remove_free(Block block) {
    const Chunk& chunk = chunks_.at(block);
    free_[chunk.pool].erase({chunk.size, chunk.address, block});
}
void CachingAllocator::add_free(Block block) {
    const Chunk& chunk = chunks_.at(block);
    free_[chunk.pool].insert({chunk.size, chunk.address, block});
}
}  // namespace pipescope
