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
// Errors: everything here throws SaveError.

/// Bytes of one element of a dtype: F64, F32, F16, BF16, I64, I32, I16, I8, U8 or BOOL. Throws for other names.
std::uint64_t bytes_of_element(const std::string& dtype);

struct StoredTensor {
    std::string name;
    std::string dtype;  ///< as in the file: "F32"
    std::vector<std::int64_t> shape;
    std::uint64_t begin = 0;  ///< of its bytes, counted from the end of the header
    std::uint64_t end = 0;

    friend bool operator==(const StoredTensor&, const StoredTensor&) = default;
};

/// The header of a file. Writers may put any text under any name into `metadata`.
struct SafetensorsHeader {
    std::vector<StoredTensor> tensors;  ///< in the order of their bytes
    std::map<std::string, std::string> metadata;

    friend bool operator==(const SafetensorsHeader&, const SafetensorsHeader&) = default;
};

/// The JSON of a header. Throws unless the tensors fill `data_bytes` without overlaps or holes, each with the bytes
/// that its shape and dtype need.
SafetensorsHeader parse_safetensors_header(std::string_view json, std::uint64_t data_bytes);
/// Its length is a multiple of 8. Throws for a name that is not UTF-8.
std::string to_json(const SafetensorsHeader& header);

/// A tensor to be written. `data` is called once, when its bytes are due, and returns them in row-major order.
struct TensorToWrite {
    std::string name;
    std::string dtype;
    std::vector<std::int64_t> shape;
    std::function<std::shared_ptr<const void>()> data;
};
/// Writes a new file and waits until it is on the disk. Throws if it exists, if a name appears twice, or if the disk is
/// full; an unfinished file is removed. Tensors with larger elements come first, so that each one is aligned. Returns
/// the checksums of what was written, taken on the way.
FileChecksums write_safetensors(const std::filesystem::path& path, std::vector<TensorToWrite> tensors,
                                std::map<std::string, std::string> metadata);

/// An open file. Reads only the header and the tensors asked for. Threading: const methods from any thread.
class SafetensorsFile {
public:
    /// Throws for a damaged file: truncated, a bad header, offsets that do not fit; with checksums, also one whose
    /// header has another.
    explicit SafetensorsFile(std::filesystem::path path, std::optional<FileChecksums> checksums = std::nullopt);
    ~SafetensorsFile();
    SafetensorsFile(const SafetensorsFile&) = delete;
    SafetensorsFile& operator=(const SafetensorsFile&) = delete;

    const std::filesystem::path& path() const noexcept { return path_; }
    const SafetensorsHeader& header() const noexcept { return header_; }
    /// `into` has end - begin bytes. Throws if the file's checksums lack the tensor, or the bytes have another; they
    /// are summed as they are read. `into` then holds what was read.
    void read(const StoredTensor& tensor, std::span<std::byte> into) const;
    /// Reads the tensor only to throw what read() throws. Needs 1 MiB of memory.
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
