#pragma once

#include "save/checksum.h"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace pipescope {
// The safetensors format (https://github.com/huggingface/safetensors): 8 bytes with the length of the header, little
// endian; the header, a JSON object padded with spaces; the tensors' bytes, packed, in row-major order, without holes.
//
// Errors: everything here throws SaveError.

/// Bytes of one element of a dtype: F64, F32, F16, BF16, I64, I32, I16, I8, U8 or BOOL. Throws for other names.
std::uint64_t bytes_of_element(const std::string& dtype);

struct StoredTensor {
    std::string name;
    std::string dtype;  ///< as in the file: "F32"
    std::vector<std::int64_t> shape;
    std::uint64_t begin = 0;  ///< position of its bytes, from the end of the header
    std::uint64_t end = 0;

    friend bool operator==(const StoredTensor&, const StoredTensor&) = default;
};

/// The header of a file. Writers may put any text under any name into `metadata`.
struct SafetensorsHeader {
    std::vector<StoredTensor> tensors;  ///< in the order of their positions
    std::map<std::string, std::string> metadata;

    friend bool operator==(const SafetensorsHeader&, const SafetensorsHeader&) = default;
};

/// Parses the JSON of a header. Throws unless each tensor has the bytes that its shape and dtype need, and the tensors
/// fill `data_bytes` without overlaps or holes.
SafetensorsHeader parse_safetensors_header(std::string_view json, std::uint64_t data_bytes);
/// The JSON, padded to a multiple of 8 bytes. Throws for a name that is not UTF-8.
std::string to_json(const SafetensorsHeader& header);

/// A tensor to write. `data` is called once, when its turn comes, and returns the bytes in row-major order.
struct TensorToWrite {
    std::string name;
    std::string dtype;
    std::vector<std::int64_t> shape;
    std::function<std::shared_ptr<const void>()> data;
};
/// Writes a new file and waits until it is on the disk. Throws if it exists, if a name appears twice, or if the disk is
/// full; an unfinished file is removed. Tensors with larger elements come first, so that each tensor is aligned.
/// Returns the checksums of the written bytes.
FileChecksums write_safetensors(const std::filesystem::path& path, std::vector<TensorToWrite> tensors,
                                std::map<std::string, std::string> metadata);

/// An open file. Reads only the header and the tensors asked for. Threading: const methods from any thread.
class SafetensorsFile {
public:
    /// Throws for a damaged file: truncated, a bad header, offsets that do not fit. With `checksums`, also if the
    /// header has another checksum.
    explicit SafetensorsFile(std::filesystem::path path, std::optional<FileChecksums> checksums = std::nullopt);
    ~SafetensorsFile();
    SafetensorsFile(const SafetensorsFile&) = delete;
    SafetensorsFile& operator=(const SafetensorsFile&) = delete;

    const std::filesystem::path& path() const noexcept { return path_; }
    const SafetensorsHeader& header() const noexcept { return header_; }
    /// Precondition: `into` has end - begin bytes. Throws if the file's checksums lack the tensor or differ from the
    /// bytes; `into` then holds what was read.
    void read(const StoredTensor& tensor, std::span<std::byte> into) const;
    /// Reads the tensor and throws as read() does. Needs 1 MiB of memory.
    void check(const StoredTensor& tensor) const;

private:
    void read_at(std::uint64_t offset, std::span<std::byte> into) const;
    template <class Place>
    void read_summed(const StoredTensor& tensor, Place place) const;
    SafetensorsHeader read_header();

    std::filesystem::path path_;
    std::optional<FileChecksums> checksums_;
    int file_;
    std::uint64_t data_begin_ = 0;
    SafetensorsHeader header_;
};
}  // namespace pipescope
