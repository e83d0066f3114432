#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace pipescope {
/// XXH3 with 64 bits and seed 0 (https://xxhash.com). Finds accidental damage, not forgery. Takes the bytes in any
/// number of pieces.
class Checksum {
public:
    Checksum();
    ~Checksum();
    Checksum(Checksum&&) noexcept;
    Checksum& operator=(Checksum&&) noexcept;

    void add(std::span<const std::byte> bytes);
    /// The checksum of all bytes so far.
    std::uint64_t value() const;

private:
    struct State;
    std::unique_ptr<State> state_;
};
std::uint64_t checksum_of(std::string_view text);

/// A checksum as files have it: 16 hexadecimal digits, the highest first.
std::string checksum_text(std::uint64_t checksum);
/// Empty for any other text.
std::optional<std::uint64_t> parse_checksum(std::string_view text);

/// The checksums of a safetensors file: of the JSON of its header, and of each tensor's bytes.
struct FileChecksums {
    std::uint64_t header = 0;
    std::map<std::string, std::uint64_t> tensors;

    friend bool operator==(const FileChecksums&, const FileChecksums&) = default;
};
/// The checksums of a saved step, by file name.
using SaveChecksums = std::map<std::string, FileChecksums>;
}  // namespace pipescope
