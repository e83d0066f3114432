#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace pipescope {
/// Layout of a payload, as registered by a program with NVTX's payload extension (nvToolsExtPayload.h). Numbers of
/// types, flags and schemas are those of NVTX.
struct PayloadEntry {
    std::uint64_t type = 0;  ///< type of the value, or its schema or enum
    std::uint64_t flags = 0;
    std::string name;
    std::uint64_t length = 0;  ///< of a fixed array or string; or the index of the entry with the length, or of a
                               ///< union's selector
    std::uint64_t offset = 0;  ///< 0: after the previous entry, as a compiler would place it
};
struct PayloadSchema {
    std::string name;
    std::vector<PayloadEntry> entries;
    std::size_t size = 0;   ///< 0: computed
    std::size_t align = 0;  ///< maximum alignment of a packed schema; 0: none
    bool is_union = false;
};
struct PayloadEnum {
    std::string name;
    std::size_t size = 0;
    std::vector<std::pair<std::string, std::uint64_t>> values;
    bool are_flags = false;
};

/// The schemas of the process, and payloads as text on their way to the drain thread.
///
/// A payload is converted to JSON when it is emitted, because it may point to strings and arrays that no longer exist
/// when the drain thread runs. This costs a few µs per range with a payload, and nothing for others. Threading: any
/// thread, under a lock.
class PayloadSchemas {
public:
    /// Global, since NVTX's C functions have no context; never destroyed.
    static PayloadSchemas& of_process();

    /// Returns `id`, or a new one if it is 0.
    std::uint64_t add(PayloadSchema schema, std::uint64_t id);
    std::uint64_t add(PayloadEnum values, std::uint64_t id);
    std::string name_of(std::uint64_t schema) const;

    /// For a registered schema, an object of the entries by name; otherwise the value, or "0x.." for bytes of an
    /// unknown layout. If `size` is SIZE_MAX, the schema's size applies, or the end of a string.
    std::string to_json(std::uint64_t schema, const void* payload, std::size_t size) const;

    /// Stores a text until take(). Empty if too many are waiting (kMostWaiting bytes).
    std::optional<std::uint64_t> keep(std::string json);
    /// Removes and returns a text; empty if it does not exist.
    std::string take(std::uint64_t number);
    /// Discards texts of lost ranges, which nobody will take.
    void forget_waiting();

    static constexpr std::size_t kMostWaiting = std::size_t{16} << 20;

private:
    class Reader;

    mutable std::mutex mutex_;
    std::map<std::uint64_t, PayloadSchema> schemas_;
    std::map<std::uint64_t, PayloadEnum> enums_;
    std::uint64_t last_id_;
    std::map<std::uint64_t, std::string> waiting_;
    std::size_t waiting_bytes_ = 0;
    std::uint64_t last_number_ = 0;

    PayloadSchemas();
};
}  // namespace pipescope
