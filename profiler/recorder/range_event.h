#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>

namespace pipescope {
/// Event types, with nsys' numbers.
enum class RangeType : std::uint8_t { mark = 34, push_pop = 59, start_end = 60 };

/// NVTX's payload types, with the numbers of nvtxPayloadType_t.
enum class PayloadType : std::uint8_t { none = 0, u64 = 1, i64 = 2, f64 = 3, u32 = 4, i32 = 5, f32 = 6 };

/// A range or mark on its way from the emitting thread to the drain thread. Texts and domains are numbers of the
/// NameRegistry. Times: recording_clock_ns().
struct RangeEvent {
    static constexpr std::int64_t kOpen = std::numeric_limits<std::int64_t>::min();

    std::int64_t start = 0;
    std::int64_t end = kOpen;    ///< kOpen: a mark, or not yet ended
    std::uint64_t payload = 0;   ///< the bits of any type
    std::uint64_t range_id = 0;  ///< for start_end only
    std::uint32_t text = 0;
    std::uint32_t domain = 0;
    std::uint32_t category = 0;   ///< 0: none
    std::uint32_t color = 0;      ///< ARGB, if has_color
    std::uint32_t start_tid = 0;  ///< the thread that started the range
    RangeType type = RangeType::push_pop;
    PayloadType payload_type = PayloadType::none;
    bool has_color = false;
    bool truncated = false;  ///< its text was truncated or omitted
};
static_assert(std::is_trivially_copyable_v<RangeEvent> && sizeof(RangeEvent) == 56);
}  // namespace pipescope
