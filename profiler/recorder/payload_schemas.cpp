#include "profiler/recorder/payload_schemas.h"

#include "profiler/recorder/fork_lock.h"
#include "profiler/recorder/nvtx_table.h"
#include "profiler/recorder/payload_scalars.h"

#include <nvtx3/nvToolsExtPayload.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstring>

namespace pipescope {
namespace {
using Json = nlohmann::ordered_json;

constexpr std::size_t kDeepest = 16;  // nesting depth of schemas, since one may contain itself

std::size_t up_to_multiple(std::size_t offset, std::size_t align) {
    return align <= 1 ? offset : (offset + align - 1) / align * align;
}
}  // namespace

/// Reads one payload. The lock must be held.
class PayloadSchemas::Reader {
public:
    explicit Reader(const PayloadSchemas& all) : all_(all) {}

    Json read(std::uint64_t type, const std::byte* at, std::size_t size) const {
        const auto schema = all_.schemas_.find(type);
        if (schema != all_.schemas_.end()) {
            return object(schema->second, at, size == SIZE_MAX ? size_of(type, 0).size : size, 0);
        }
        if (character_bytes(type) > 0) {  // a payload that is itself a text, not a pointer to one
            return payload_text(type, at, size / character_bytes(type));
        }
        const Extent extent = size_of(type, 0);
        if (extent.size > 0 && size >= extent.size) {
            return value(type, at, 0);
        }
        return size == SIZE_MAX ? Json(nullptr) : payload_bytes(at, size);
    }

private:
    struct Extent {
        std::size_t size = 0;
        std::size_t align = 1;
    };
    /// Numeric values of the entries so far: lengths of arrays, selected members of unions.
    using Numbers = std::vector<std::optional<std::uint64_t>>;

    Extent size_of(std::uint64_t type, std::size_t depth) const {
        if (const auto values = all_.enums_.find(type); values != all_.enums_.end()) {
            return {values->second.size, values->second.size};
        }
        const auto schema = all_.schemas_.find(type);
        if (schema == all_.schemas_.end() || depth > kDeepest) {
            const PayloadScalar scalar = payload_scalar(type);
            return {scalar.size, std::max<std::size_t>(scalar.size, 1)};
        }
        Extent whole;
        for (const PayloadEntry& entry : schema->second.entries) {
            const Extent each = extent_of(entry, schema->second, depth + 1);
            whole.align = std::max(whole.align, each.align);
            const std::size_t offset = offset_of(entry, schema->second, each, whole.size);
            whole.size = std::max(whole.size, offset + each.size);
        }
        whole.size = schema->second.size != 0 ? schema->second.size : up_to_multiple(whole.size, whole.align);
        return whole;
    }

    /// One element of an entry. For a string inside the payload, one character.
    Extent element_of(const PayloadEntry& entry, std::size_t depth) const {
        const std::size_t character = is_embedded_string(entry) ? character_bytes(entry.type) : 0;
        return character > 0 ? Extent{character, character} : size_of(entry.type, depth);
    }

    /// An array whose length only the payload gives counts as empty.
    Extent extent_of(const PayloadEntry& entry, const PayloadSchema& schema, std::size_t depth) const {
        Extent extent = element_of(entry, depth);
        if (is_pointer(entry)) {
            extent = {sizeof(void*), alignof(void*)};
        } else if (is_of_fixed_length(entry)) {
            extent.size *= entry.length;
        } else if (array_of(entry) != 0) {
            extent.size = 0;
        }
        extent.align = schema.align != 0 ? std::min(extent.align, schema.align) : extent.align;
        return extent;
    }

    /// `end`: of the entry before.
    static std::size_t offset_of(const PayloadEntry& entry, const PayloadSchema& schema, const Extent& extent,
                                 std::size_t end) {
        return entry.offset != 0 ? entry.offset : schema.is_union ? 0 : up_to_multiple(end, extent.align);
    }

    static std::uint64_t array_of(const PayloadEntry& entry) { return NVTX_PAYLOAD_ENTRY_FLAG_ARRAY_TYPE(entry.flags); }
    static bool is_pointer(const PayloadEntry& entry) { return (entry.flags & NVTX_PAYLOAD_ENTRY_FLAG_POINTER) != 0; }
    static bool is_embedded_string(const PayloadEntry& entry) {
        return is_string(entry.type) && !is_pointer(entry) && (array_of(entry) != 0 || entry.length > 0);
    }
    static bool is_of_fixed_length(const PayloadEntry& entry) {
        return array_of(entry) == NVTX_PAYLOAD_ENTRY_FLAG_ARRAY_FIXED_SIZE ||
               (array_of(entry) == 0 && is_embedded_string(entry));
    }

    Json object(const PayloadSchema& schema, const std::byte* at, std::size_t size, std::size_t depth) const {
        Json result = Json::object();
        Numbers numbers;
        std::size_t end = 0;
        for (const PayloadEntry& entry : schema.entries) {
            const Extent extent = extent_of(entry, schema, depth);
            const std::size_t offset = offset_of(entry, schema, extent, end);
            const std::string name = entry.name.empty() ? std::to_string(numbers.size()) : entry.name;
            if (offset > size || extent.size > size - offset) {
                result[name] = nullptr;  // the payload ends before this entry
                numbers.emplace_back();
                continue;
            }
            const std::size_t left = size - offset;
            end = offset + std::max(extent.size, is_pointer(entry) ? 0 : bytes_of(entry, at + offset, left, numbers));
            result[name] = member(entry, at + offset, left, numbers, depth);
            numbers.push_back(number_in(entry, at + offset, result[name]));
        }
        return result;
    }

    /// The value as a length or selector. An array's values are multiplied.
    std::optional<std::uint64_t> number_in(const PayloadEntry& entry, const std::byte* at, const Json& json) const {
        if (const auto values = all_.enums_.find(entry.type); values != all_.enums_.end() && entry.flags == 0) {
            return raw(values->second, at);
        }
        std::uint64_t product = 1;
        for (const Json& each : json.is_array() ? json : Json::array({json})) {
            if (!each.is_number_integer() || each < 0) {
                return std::nullopt;
            }
            product *= each.get<std::uint64_t>();
        }
        return product;
    }

    /// Number of elements of an array. At most `left` bytes may be read.
    std::size_t length_of(const PayloadEntry& entry, const std::byte* at, std::size_t left,
                          const Numbers& numbers) const {
        const std::size_t size = std::max<std::size_t>(element_of(entry, 0).size, 1);
        if (is_of_fixed_length(entry)) {
            return std::min(entry.length, left / size);
        }
        if (array_of(entry) == NVTX_PAYLOAD_ENTRY_FLAG_ARRAY_LENGTH_INDEX) {
            const auto length = entry.length < numbers.size() ? numbers[entry.length] : std::nullopt;
            return std::min<std::uint64_t>(length.value_or(0), left / size);
        }
        const auto is_zero = [&](std::size_t k) {
            return std::all_of(at + k * size, at + (k + 1) * size, [](std::byte byte) { return byte == std::byte{0}; });
        };
        std::size_t length = 0;
        while (length < std::min(kMostPayloadElements, left / size) && !is_zero(length)) {
            ++length;
        }
        return length;
    }

    /// Bytes of an array inside the payload, including a terminating zero.
    std::size_t bytes_of(const PayloadEntry& entry, const std::byte* at, std::size_t left,
                         const Numbers& numbers) const {
        if (array_of(entry) == 0) {
            return 0;
        }
        const bool has_zero = array_of(entry) == NVTX_PAYLOAD_ENTRY_FLAG_ARRAY_ZERO_TERMINATED;
        return (length_of(entry, at, left, numbers) + (has_zero ? 1 : 0)) * element_of(entry, 0).size;
    }

    Json member(const PayloadEntry& entry, const std::byte* at, std::size_t left, const Numbers& numbers,
                std::size_t depth) const {
        if (is_pointer(entry)) {
            at = value_at<const std::byte*>(at);
            if (at == nullptr || (entry.flags & NVTX_PAYLOAD_ENTRY_FLAG_DEEP_COPY) == 0) {
                return at == nullptr ? Json(nullptr) : Json(reinterpret_cast<std::uintptr_t>(at));
            }
            left = SIZE_MAX;
        }
        if (is_embedded_string(entry)) {
            return payload_text(entry.type, at, length_of(entry, at, left, numbers));
        }
        if (array_of(entry) == 0) {
            return selected(entry, at, numbers, depth);
        }
        const std::size_t length = length_of(entry, at, left, numbers);
        if (character_bytes(entry.type) > 0 && !is_string(entry.type)) {
            return payload_text(entry.type, at, length);
        }
        Json list = Json::array();
        const std::size_t size = size_of(entry.type, depth).size;
        for (std::size_t k = 0; size > 0 && k < std::min(length, kMostPayloadElements); ++k) {
            list.push_back(value(entry.type, at + k * size, depth));
        }
        return list;
    }

    /// The value of an entry. For a union, only the member named by its selector, if that is valid.
    Json selected(const PayloadEntry& entry, const std::byte* at, const Numbers& numbers, std::size_t depth) const {
        const auto schema = all_.schemas_.find(entry.type);
        if (schema != all_.schemas_.end() && schema->second.is_union && entry.length < numbers.size()) {
            const std::optional<std::uint64_t> selector = numbers[entry.length];
            if (selector && *selector < schema->second.entries.size() && depth < kDeepest) {
                PayloadSchema one = schema->second;
                one.entries = {schema->second.entries[*selector]};
                return object(one, at, size_of(entry.type, depth).size, depth + 1);
            }
        }
        return value(entry.type, at, depth);
    }

    /// A value whose size has been checked.
    Json value(std::uint64_t type, const std::byte* at, std::size_t depth) const {
        if (const auto schema = all_.schemas_.find(type); schema != all_.schemas_.end()) {
            return depth < kDeepest ? object(schema->second, at, size_of(type, depth).size, depth + 1) : Json(nullptr);
        }
        if (const auto values = all_.enums_.find(type); values != all_.enums_.end()) {
            return enumerator(values->second, at);
        }
        const PayloadScalar scalar = payload_scalar(type);
        return scalar.size == 0 ? Json(nullptr) : scalar.read(at);
    }

    static std::uint64_t raw(const PayloadEnum& values, const std::byte* at) {
        std::uint64_t number = 0;
        std::memcpy(&number, at, std::min(values.size, sizeof(number)));
        return number;
    }

    /// The enumerator's name if it has one; "a|b" for flags.
    static Json enumerator(const PayloadEnum& values, const std::byte* at) {
        const std::uint64_t number = raw(values, at);
        std::string flags;
        for (const auto& [name, value] : values.values) {
            if (value == number) {
                return name;
            }
            if (values.are_flags && value != 0 && (number & value) == value) {
                flags += (flags.empty() ? "" : "|") + name;
            }
        }
        return flags.empty() ? Json(number) : Json(flags);
    }

    const PayloadSchemas& all_;
};

PayloadSchemas::PayloadSchemas() : last_id_(NVTX_PAYLOAD_SCHEMA_ID_DYNAMIC_START) {
    hold_across_forks(mutex_, LockRank::outer);  // a payload may hold a text of the registry
}

PayloadSchemas& PayloadSchemas::of_process() {
    static auto* const one = new PayloadSchemas;
    return *one;
}

std::uint64_t PayloadSchemas::add(PayloadSchema schema, std::uint64_t id) {
    const std::scoped_lock lock(mutex_);
    id = id == 0 ? ++last_id_ : id;
    schemas_[id] = std::move(schema);
    return id;
}

std::uint64_t PayloadSchemas::add(PayloadEnum values, std::uint64_t id) {
    const std::scoped_lock lock(mutex_);
    id = id == 0 ? ++last_id_ : id;
    enums_[id] = std::move(values);
    return id;
}

std::string PayloadSchemas::name_of(std::uint64_t schema) const {
    const std::scoped_lock lock(mutex_);
    const auto found = schemas_.find(schema);
    return found == schemas_.end() ? std::string() : found->second.name;
}

std::string PayloadSchemas::to_json(std::uint64_t schema, const void* payload, std::size_t size) const {
    if (payload == nullptr) {
        return "null";
    }
    const std::scoped_lock lock(mutex_);
    const Json json = Reader(*this).read(schema, static_cast<const std::byte*>(payload), size);
    return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::optional<std::uint64_t> PayloadSchemas::keep(std::string json) {
    const std::scoped_lock lock(mutex_);
    if (waiting_bytes_ + json.size() > kMostWaiting) {
        return std::nullopt;
    }
    waiting_bytes_ += json.size();
    waiting_.emplace(++last_number_, std::move(json));
    return last_number_;
}

std::string PayloadSchemas::take(std::uint64_t number) {
    const std::scoped_lock lock(mutex_);
    const auto node = waiting_.extract(number);
    if (node.empty()) {
        return {};
    }
    waiting_bytes_ -= node.mapped().size();
    return std::move(node.mapped());
}

void PayloadSchemas::forget_waiting() {
    const std::scoped_lock lock(mutex_);
    waiting_.clear();
    waiting_bytes_ = 0;
}
}  // namespace pipescope
