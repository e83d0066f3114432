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
/// How the bytes of a payload are to be read: what a program registered by NVTX's payload extension
/// (nvToolsExtPayload.h). Numbers of types, flags and schemas are NVTX's.
struct PayloadEntry {
    std::uint64_t type = 0;  ///< of the value, or the schema or enum it is of
    std::uint64_t flags = 0;
    std::string name;
    std::uint64_t length = 0;  ///< of a fixed array or string; or which entry holds the length, or a union's selector
    std::uint64_t offset = 0;  ///< 0: behind the entry before, as a compiler would place it
};
struct PayloadSchema {
    std::string name;
    std::vector<PayloadEntry> entries;
    std::size_t size = 0;   ///< 0: worked out
    std::size_t align = 0;  ///< at most so much, if not 0: packed
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
/// A payload is turned into JSON where it is emitted: it may point to strings and arrays that are gone by the time the
/// drain thread comes. That costs a few µs for each range that carries one, and nothing for all others.
/// Threading: every method from any thread, under a lock.
class PayloadSchemas {
public:
    /// A global since NVTX's C functions carry no context; never destroyed.
    static PayloadSchemas& of_process();

    /// Returns `id`, or a new one where that is 0.
    std::uint64_t add(PayloadSchema schema, std::uint64_t id);
    std::uint64_t add(PayloadEnum values, std::uint64_t id);
    std::string name_of(std::uint64_t schema) const;

    /// An object of the entries by name, for a payload of a registered schema; else the value, or "0x.." for bytes of
    /// an unknown layout. `size` may be SIZE_MAX: the schema's own, or up to the end of a string.
    std::string to_json(std::uint64_t schema, const void* payload, std::size_t size) const;

    /// Keeps a text until take(); nothing where too many wait (kMostWaiting bytes).
    std::optional<std::uint64_t> keep(std::string json);
    /// Empty for one that is not there.
    std::string take(std::uint64_t number);
    /// Of ranges that were lost: nobody will take them.
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
