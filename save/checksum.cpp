#include "save/checksum.h"

#include <algorithm>
#include <array>
#include <charconv>

#define XXH_INLINE_ALL  // needs the header only, so no program gets another library to load
#include <xxhash.h>

namespace pipescope {
namespace {
constexpr std::size_t kDigits = 16;
}  // namespace

struct Checksum::State {
    XXH3_state_t hash;
};

Checksum::Checksum() : state_(std::make_unique<State>()) {
    XXH3_64bits_reset(&state_->hash);
}

Checksum::~Checksum() = default;
Checksum::Checksum(Checksum&&) noexcept = default;
Checksum& Checksum::operator=(Checksum&&) noexcept = default;

void Checksum::add(std::span<const std::byte> bytes) {
    XXH3_64bits_update(&state_->hash, bytes.data(), bytes.size());
}

std::uint64_t Checksum::value() const {
    return XXH3_64bits_digest(&state_->hash);
}

std::uint64_t checksum_of(std::string_view text) {
    return XXH3_64bits(text.data(), text.size());
}

std::string checksum_text(std::uint64_t checksum) {
    std::array<char, kDigits> digits{};
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), checksum, 16).ptr;
    const std::string text(digits.data(), end);
    return std::string(kDigits - text.size(), '0') + text;
}

std::optional<std::uint64_t> parse_checksum(std::string_view text) {
    std::uint64_t checksum = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), checksum, 16);
    if (error != std::errc() || checksum_text(checksum) != text) {  // the second test refuses further text
        return std::nullopt;
    }
    return checksum;
}
}  // namespace pipescope
