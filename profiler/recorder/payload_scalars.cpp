#include "profiler/recorder/payload_scalars.h"

#include "profiler/recorder/name_registry.h"
#include "profiler/recorder/nvtx_table.h"

#include <fmt/format.h>
#include <nvtx3/nvToolsExtPayload.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>

namespace pipescope {
namespace {
using Json = nlohmann::ordered_json;

template <class Value>
PayloadScalar number() {
    return {sizeof(Value), [](const std::byte* at) { return Json(value_at<Value>(at)); }};
}

template <std::size_t size>
PayloadScalar opaque() {
    return {size, [](const std::byte* at) { return payload_bytes(at, size); }};
}

/// IEEE 754 half precision: 5 bits of exponent, 10 bits of fraction.
float from_half(std::uint16_t bits) {
    const int exponent = bits >> 10 & 0x1f;
    const int fraction = bits & 0x3ff;
    float value = 0;
    if (exponent == 0x1f) {
        value = fraction == 0 ? std::numeric_limits<float>::infinity() : std::numeric_limits<float>::quiet_NaN();
    } else if (exponent == 0) {
        value = std::ldexp(static_cast<float>(fraction), -24);
    } else {
        value = std::ldexp(static_cast<float>(fraction + 0x400), exponent - 25);
    }
    return (bits & 0x8000) != 0 ? -value : value;
}

/// Reads up to a zero. A surrogate pair becomes one character.
template <class Unit>
std::wstring wide_text(const std::byte* at, std::size_t most) {
    static_assert(sizeof(wchar_t) == sizeof(char32_t));
    std::wstring text;
    for (std::size_t k = 0; k < most; ++k) {
        const std::uint32_t unit = value_at<Unit>(at + k * sizeof(Unit));
        if (unit == 0) {
            break;
        }
        const bool is_second = sizeof(Unit) == 2 && (unit & 0xfc00) == 0xdc00 && !text.empty() &&
                               (static_cast<std::uint32_t>(text.back()) & 0xfffffc00) == 0xd800;
        if (is_second) {
            const std::uint32_t high = static_cast<std::uint32_t>(text.back()) & 0x3ff;
            text.back() = static_cast<wchar_t>(0x10000 + (high << 10 | (unit & 0x3ff)));
        } else {
            text.push_back(static_cast<wchar_t>(unit));
        }
    }
    return text;
}

template <std::uint64_t type>
PayloadScalar pointer_to_text() {
    return {sizeof(void*), [](const std::byte* at) {
                const auto* text = value_at<const std::byte*>(at);
                return text == nullptr ? Json(nullptr) : payload_text(type, text, NameRegistry::kLongestText + 1);
            }};
}
}  // namespace

PayloadScalar payload_scalar(std::uint64_t type) {
    switch (type) {
        case NVTX_PAYLOAD_ENTRY_TYPE_CHAR:
        case NVTX_PAYLOAD_ENTRY_TYPE_CHAR8:
            return {1, [](const std::byte* at) { return payload_text(NVTX_PAYLOAD_ENTRY_TYPE_CHAR, at, 1); }};
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
            return {2, [](const std::byte* at) { return Json(from_half(value_at<std::uint16_t>(at))); }};
        case NVTX_PAYLOAD_ENTRY_TYPE_BF16:
            return {2, [](const std::byte* at) {
                        return Json(std::bit_cast<float>(std::uint32_t{value_at<std::uint16_t>(at)} << 16));
                    }};
        case NVTX_PAYLOAD_ENTRY_TYPE_LONGDOUBLE:
            return {sizeof(long double),
                    [](const std::byte* at) { return Json(static_cast<double>(value_at<long double>(at))); }};
        case NVTX_PAYLOAD_ENTRY_TYPE_INT128:
        case NVTX_PAYLOAD_ENTRY_TYPE_UINT128:
        case NVTX_PAYLOAD_ENTRY_TYPE_FLOAT128: return opaque<16>();
        case NVTX_PAYLOAD_ENTRY_TYPE_CSTRING:
        case NVTX_PAYLOAD_ENTRY_TYPE_CSTRING_UTF8: return pointer_to_text<NVTX_PAYLOAD_ENTRY_TYPE_CSTRING_UTF8>();
        case NVTX_PAYLOAD_ENTRY_TYPE_CSTRING_UTF16: return pointer_to_text<NVTX_PAYLOAD_ENTRY_TYPE_CSTRING_UTF16>();
        case NVTX_PAYLOAD_ENTRY_TYPE_CSTRING_UTF32: return pointer_to_text<NVTX_PAYLOAD_ENTRY_TYPE_CSTRING_UTF32>();
        case NVTX_PAYLOAD_ENTRY_TYPE_NVTX_REGISTERED_STRING_HANDLE:
            return {sizeof(void*), [](const std::byte* at) {
                        const auto texts =
                            NameRegistry::of_process().after<std::string>(from_handle(value_at<const void*>(at)));
                        return texts.empty() ? Json(nullptr) : Json(texts.front());
                    }};
        default: return {};
    }
}

std::size_t character_bytes(std::uint64_t type) {
    switch (type) {
        case NVTX_PAYLOAD_ENTRY_TYPE_CHAR:
        case NVTX_PAYLOAD_ENTRY_TYPE_CHAR8:
        case NVTX_PAYLOAD_ENTRY_TYPE_CSTRING:
        case NVTX_PAYLOAD_ENTRY_TYPE_CSTRING_UTF8: return 1;
        case NVTX_PAYLOAD_ENTRY_TYPE_CSTRING_UTF16: return 2;
        case NVTX_PAYLOAD_ENTRY_TYPE_CSTRING_UTF32: return 4;
        default: return 0;
    }
}

bool is_string(std::uint64_t type) {
    return character_bytes(type) > 0 && type != NVTX_PAYLOAD_ENTRY_TYPE_CHAR && type != NVTX_PAYLOAD_ENTRY_TYPE_CHAR8;
}

Json payload_text(std::uint64_t type, const std::byte* at, std::size_t most) {
    most = std::min(most, NameRegistry::kLongestText + 1);
    switch (character_bytes(type)) {
        case 2: return std::string(cut_text(utf8(wide_text<std::uint16_t>(at, most).c_str())));
        case 4: return std::string(cut_text(utf8(wide_text<std::uint32_t>(at, most).c_str())));
        default: {
            const char* text = reinterpret_cast<const char*>(at);
            return std::string(cut_text(std::string_view(text, strnlen(text, most))));
        }
    }
}

Json payload_bytes(const std::byte* at, std::size_t size) {
    std::string text = "0x";
    for (std::size_t k = 0; k < std::min(size, kMostPayloadElements); ++k) {
        text += fmt::format("{:02x}", static_cast<unsigned>(at[k]));
    }
    return text;
}
}  // namespace pipescope
