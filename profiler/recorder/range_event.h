#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>

namespace pipescope {
/// nsys' event types.
enum class RangeType : std::uint8_t { mark = 34, push_pop = 59, start_end = 60 };

/// NVTX's payload types; the numbers are those of nvtxPayloadType_t. `schema`: the payload is the number of a text of
/// PayloadSchemas.
enum class PayloadType : std::uint8_t { none = 0, u64 = 1, i64 = 2, f64 = 3, u32 = 4, i32 = 5, f32 = 6, schema = 7 };

/// One range or mark as it travels from the thread that emitted it to the drain thread. Texts and domains are numbers
/// of the NameRegistry. Times: recording_clock_ns().
struct RangeEvent {
    static constexpr std::int64_t kOpen = std::numeric_limits<std::int64_t>::min();

    std::int64_t start = 0;
    std::int64_t end = kOpen;    ///< kOpen: a mark, or not ended yet
    std::uint64_t payload = 0;   ///< the bits, whatever the type
    std::uint64_t range_id = 0;  ///< start_end only
    std::uint32_t text = 0;
    std::uint32_t domain = 0;
    std::uint32_t category = 0;   ///< 0: none
    std::uint32_t color = 0;      ///< ARGB, if has_color
    std::uint32_t start_tid = 0;  ///< the thread that started it
    RangeType type = RangeType::push_pop;
    PayloadType payload_type = PayloadType::none;
    bool has_color = false;
    bool truncated = false;  ///< its text was cut or left out
};
static_assert(std::is_trivially_copyable_v<RangeEvent> && sizeof(RangeEvent) == 56);
}  // namespace pipescope
