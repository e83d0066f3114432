#include "profiler/recorder/payload_schemas.h"

#include "profiler/recorder/name_registry.h"
#include "profiler/recorder/nvtx_table.h"

#include <fmt/format.h>
#include <nvtx3/nvToolsExtPayload.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstring>

namespace pipescope {
namespace {
using Json = nlohmann::ordered_json;

constexpr std::size_t kDeepest = 16;         // schemas in schemas: one may hold itself
constexpr std::size_t kMostElements = 1000;  // of an array; the rest is left out

struct Scalar {
    std::size_t size = 0;  // 0: no scalar
    Json (*read)(const std::byte*) = nullptr;
};

template <class Value>
Value value_at(const std::byte* at) {
    Value value;
    std::memcpy(&value, at, sizeof(value));
    return value;
}

template <class Value>
Scalar number() {
    return {sizeof(Value), [](const std::byte* at) { return Json(value_at<Value>(at)); }};
}

Json hexadecimal(const std::byte* bytes, std::size_t size) {
    std::string text = "0x";
    for (std::size_t k = 0; k < std::min(size, kMostElements); ++k) {
        text += fmt::format("{:02x}", static_cast<unsigned>(bytes[k]));
    }
    return text;
}

template <std::size_t size>
Scalar opaque() {
    return {size, [](const std::byte* at) { return hexadecimal(at, size); }};
}

Json characters(const char* text, std::size_t most) {
    const std::string_view all(text, strnlen(text, most));
    return std::string(cut_text(all));
}

Scalar scalar_of(std::uint64_t type) {
    switch (type) {
        case NVTX_PAYLOAD_ENTRY_TYPE_CHAR:
        case NVTX_PAYLOAD_ENTRY_TYPE_CHAR8:
            return {1, [](const std::byte* at) { return characters(reinterpret_cast<const char*>(at), 1); }};
        case NVTX_PAYLOAD_ENTRY_TYPE_UCHAR:
        case NVTX_PAYLOAD_ENTRY_TYPE_BYTE:
        case NVTX_PAYLOAD_ENTRY_TYPE_UINT8: return number<std::uint8_t>();
        case NVTX_PAYLOAD_ENTRY_TYPE_INT8: return number<std::int8_t>();
        case NVTX_PAYLOAD_ENTRY_TYPE_SHORT:
        case NVTX_PAYLOAD_ENTRY_TYPE_INT16: return number<std::int16_t>();
        case NVTX_PAYLOAD_ENTRY_TYPE_USHORT:
        case NVTX_PAYLOAD_ENTRY_TYPE_CHAR16:
        case NVTX_PAYLOAD_ENTRY_TYPE_UINT16: return number<std::uint16_t>();
        case NVTX_PAYLOAD_ENTRY_TYPE_INT:
        case NVTX_PAYLOAD_ENTRY_TYPE_INT32: return number<std::int32_t>();
        case NVTX_PAYLOAD_ENTRY_TYPE_UINT:
        case NVTX_PAYLOAD_ENTRY_TYPE_UINT32:
        case NVTX_PAYLOAD_ENTRY_TYPE_CHAR32:
        case NVTX_PAYLOAD_ENTRY_TYPE_WCHAR:
        case NVTX_PAYLOAD_ENTRY_TYPE_CATEGORY:
        case NVTX_PAYLOAD_ENTRY_TYPE_COLOR_ARGB:
        case NVTX_PAYLOAD_ENTRY_TYPE_PID_UINT32:
        case NVTX_PAYLOAD_ENTRY_TYPE_TID_UINT32: return number<std::uint32_t>();
        case NVTX_PAYLOAD_ENTRY_TYPE_LONG:
        case NVTX_PAYLOAD_ENTRY_TYPE_LONGLONG:
        case NVTX_PAYLOAD_ENTRY_TYPE_INT64: return number<std::int64_t>();
        case NVTX_PAYLOAD_ENTRY_TYPE_ULONG:
        case NVTX_PAYLOAD_ENTRY_TYPE_ULONGLONG:
        case NVTX_PAYLOAD_ENTRY_TYPE_UINT64:
        case NVTX_PAYLOAD_ENTRY_TYPE_SIZE:
        case NVTX_PAYLOAD_ENTRY_TYPE_SCOPE_ID:
        case NVTX_PAYLOAD_ENTRY_TYPE_PID_UINT64:
        case NVTX_PAYLOAD_ENTRY_TYPE_TID_UINT64:
        case NVTX_PAYLOAD_ENTRY_TYPE_ADDRESS: return number<std::uint64_t>();
        case NVTX_PAYLOAD_ENTRY_TYPE_FLOAT:
        case NVTX_PAYLOAD_ENTRY_TYPE_FLOAT32:
        case NVTX_PAYLOAD_ENTRY_TYPE_TF32: return number<float>();
        case NVTX_PAYLOAD_ENTRY_TYPE_DOUBLE:
        case NVTX_PAYLOAD_ENTRY_TYPE_FLOAT64: return number<double>();
        case NVTX_PAYLOAD_ENTRY_TYPE_FLOAT16:
        case NVTX_PAYLOAD_ENTRY_TYPE_BF16: return opaque<2>();
        case NVTX_PAYLOAD_ENTRY_TYPE_LONGDOUBLE:
        case NVTX_PAYLOAD_ENTRY_TYPE_INT128:
        case NVTX_PAYLOAD_ENTRY_TYPE_UINT128:
        case NVTX_PAYLOAD_ENTRY_TYPE_FLOAT128: return opaque<16>();
        case NVTX_PAYLOAD_ENTRY_TYPE_CSTRING:
        case NVTX_PAYLOAD_ENTRY_TYPE_CSTRING_UTF8:
            return {sizeof(char*), [](const std::byte* at) {
                        const char* text = value_at<const char*>(at);
                        return text == nullptr ? Json(nullptr) : characters(text, NameRegistry::kLongestText + 1);
                    }};
        case NVTX_PAYLOAD_ENTRY_TYPE_NVTX_REGISTERED_STRING_HANDLE:
            return {sizeof(void*), [](const std::byte* at) {
                        const auto texts =
                            NameRegistry::of_process().texts_after(from_handle(value_at<const void*>(at)));
                        return texts.empty() ? Json(nullptr) : Json(texts.front());
                    }};
        case NVTX_PAYLOAD_ENTRY_TYPE_CSTRING_UTF16:
        case NVTX_PAYLOAD_ENTRY_TYPE_CSTRING_UTF32: return opaque<sizeof(void*)>();
        default: return {};
    }
}

bool is_text(std::uint64_t type) {
    return type == NVTX_PAYLOAD_ENTRY_TYPE_CHAR || type == NVTX_PAYLOAD_ENTRY_TYPE_CHAR8 ||
           type == NVTX_PAYLOAD_ENTRY_TYPE_CSTRING || type == NVTX_PAYLOAD_ENTRY_TYPE_CSTRING_UTF8;
}

std::size_t up_to_multiple(std::size_t offset, std::size_t align) {
    return align <= 1 ? offset : (offset + align - 1) / align * align;
}
}  // namespace

/// Reads one payload. The lock is held.
class PayloadSchemas::Reader {
public:
    explicit Reader(const PayloadSchemas& all) : all_(all) {}

    Json read(std::uint64_t type, const std::byte* at, std::size_t size) const {
        const auto schema = all_.schemas_.find(type);
        if (schema != all_.schemas_.end()) {
            return object(schema->second, at, size == SIZE_MAX ? size_of(type, 0).size : size, 0);
        }
        if (is_text(type)) {  // a payload that is a text, not a pointer to one
            return characters(reinterpret_cast<const char*>(at), std::min(size, NameRegistry::kLongestText + 1));
        }
        const Extent extent = size_of(type, 0);
        if (extent.size > 0 && size >= extent.size) {
            return value(type, at, 0);
        }
        return size == SIZE_MAX ? Json(nullptr) : hexadecimal(at, size);
    }

private:
    struct Extent {
        std::size_t size = 0;
        std::size_t align = 1;
    };

    Extent size_of(std::uint64_t type, std::size_t depth) const {
        if (const auto values = all_.enums_.find(type); values != all_.enums_.end()) {
            return {values->second.size, values->second.size};
        }
        const auto schema = all_.schemas_.find(type);
        if (schema == all_.schemas_.end() || depth > kDeepest) {
            const Scalar scalar = scalar_of(type);
            return {scalar.size, std::max<std::size_t>(scalar.size, 1)};
        }
        Extent whole;
        for (const PayloadEntry& entry : schema->second.entries) {
            const Extent each = extent_of(entry, schema->second, depth + 1);
            whole.align = std::max(whole.align, each.align);
            const std::size_t offset = entry.offset != 0         ? entry.offset
                                       : schema->second.is_union ? 0
                                                                 : up_to_multiple(whole.size, each.align);
            whole.size = std::max(whole.size, offset + each.size);
        }
        whole.size = schema->second.size != 0 ? schema->second.size : up_to_multiple(whole.size, whole.align);
        return whole;
    }

    Extent extent_of(const PayloadEntry& entry, const PayloadSchema& schema, std::size_t depth) const {
        const std::uint64_t array = NVTX_PAYLOAD_ENTRY_FLAG_ARRAY_TYPE(entry.flags);
        Extent extent = size_of(entry.type, depth);
        if ((entry.flags & NVTX_PAYLOAD_ENTRY_FLAG_POINTER) != 0) {
            extent = {sizeof(void*), alignof(void*)};
        } else if (array == NVTX_PAYLOAD_ENTRY_FLAG_ARRAY_FIXED_SIZE) {
            extent.size *= entry.length;
        } else if (array != 0) {
            extent.size = 0;  // of a length that only the payload tells; nothing follows whose place we know
        }
        extent.align = schema.align != 0 ? std::min(extent.align, schema.align) : extent.align;
        return extent;
    }

    Json object(const PayloadSchema& schema, const std::byte* at, std::size_t size, std::size_t depth) const {
        Json result = Json::object();
        std::vector<std::uint64_t> numbers;  // of the entries so far, where they are any: lengths of arrays
        std::size_t end = 0;
        for (const PayloadEntry& entry : schema.entries) {
            const Extent extent = extent_of(entry, schema, depth);
            const std::size_t offset = entry.offset != 0 ? entry.offset
                                       : schema.is_union ? 0
                                                         : up_to_multiple(end, extent.align);
            const std::string name = entry.name.empty() ? std::to_string(numbers.size()) : entry.name;
            if (offset > size || extent.size > size - offset) {
                result[name] = nullptr;  // the payload ends before it
                numbers.push_back(0);
                continue;
            }
            end = offset + extent.size;
            result[name] = member(entry, at + offset, size - offset, numbers, depth);
            const bool is_number = result[name].is_number_integer() && result[name] >= 0;
            numbers.push_back(is_number ? result[name].get<std::uint64_t>() : 0);
        }
        return result;
    }

    Json member(const PayloadEntry& entry, const std::byte* at, std::size_t left,
                const std::vector<std::uint64_t>& numbers, std::size_t depth) const {
        const std::uint64_t array = NVTX_PAYLOAD_ENTRY_FLAG_ARRAY_TYPE(entry.flags);
        if ((entry.flags & NVTX_PAYLOAD_ENTRY_FLAG_POINTER) != 0) {
            at = value_at<const std::byte*>(at);
            if (at == nullptr || (entry.flags & NVTX_PAYLOAD_ENTRY_FLAG_DEEP_COPY) == 0) {
                return at == nullptr ? Json(nullptr) : Json(reinterpret_cast<std::uintptr_t>(at));
            }
            left = SIZE_MAX;
        }
        if (array == 0) {
            return value(entry.type, at, depth);
        }
        std::size_t length = entry.length;
        if (array == NVTX_PAYLOAD_ENTRY_FLAG_ARRAY_ZERO_TERMINATED) {
            length = left;
        } else if (array != NVTX_PAYLOAD_ENTRY_FLAG_ARRAY_FIXED_SIZE) {
            length = entry.length < numbers.size() ? numbers[entry.length] : 0;
        }
        return elements(entry.type, at, length, left, depth);
    }

    Json elements(std::uint64_t type, const std::byte* at, std::size_t length, std::size_t left,
                  std::size_t depth) const {
        if (type == NVTX_PAYLOAD_ENTRY_TYPE_CHAR || type == NVTX_PAYLOAD_ENTRY_TYPE_CHAR8) {
            const std::size_t most = std::min({length, left, NameRegistry::kLongestText + 1});
            return characters(reinterpret_cast<const char*>(at), most);
        }
        Json list = Json::array();
        const std::size_t size = size_of(type, depth).size;
        const std::size_t fits = size == 0 ? 0 : std::min({length, left / size, kMostElements});
        for (std::size_t k = 0; k < fits; ++k) {
            list.push_back(value(type, at + k * size, depth));
        }
        return list;
    }

    /// One value of a size that was looked at.
    Json value(std::uint64_t type, const std::byte* at, std::size_t depth) const {
        if (const auto schema = all_.schemas_.find(type); schema != all_.schemas_.end()) {
            return depth < kDeepest ? object(schema->second, at, size_of(type, depth).size, depth + 1) : Json(nullptr);
        }
        if (const auto values = all_.enums_.find(type); values != all_.enums_.end()) {
            return enumerator(values->second, at);
        }
        const Scalar scalar = scalar_of(type);
        return scalar.size == 0 ? Json(nullptr) : scalar.read(at);
    }

    /// By name where it has one; "a|b" for flags.
    static Json enumerator(const PayloadEnum& values, const std::byte* at) {
        std::uint64_t number = 0;
        std::memcpy(&number, at, std::min(values.size, sizeof(number)));
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

PayloadSchemas::PayloadSchemas() : last_id_(NVTX_PAYLOAD_SCHEMA_ID_DYNAMIC_START) {}

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
