#include "save/safetensors.h"

#include "save/durable_file.h"
#include "save/save_error.h"
#include "save/save_json.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <limits>
#include <set>
#include <utility>

namespace pipescope {
namespace {
using nlohmann::json;
static_assert(std::endian::native == std::endian::little,
              "tensors are stored in little endian, and copied as they are");

constexpr std::uint64_t kMostHeaderBytes = 100'000'000;  // the format's limit
constexpr const char* kMetadata = "__metadata__";
constexpr std::size_t kAlignment = 8;
constexpr std::size_t kPiece = std::size_t{1} << 20;  // still in the cache when its checksum is computed
using HeaderLength = std::uint64_t;

/// Multiplies in the order of the dimensions and throws if the product does not fit, as other readers do.
std::uint64_t bytes_of(const std::vector<std::int64_t>& shape, const std::string& dtype) {
    std::uint64_t bytes = bytes_of_element(dtype);
    for (const std::int64_t size : shape) {
        if (__builtin_mul_overflow(bytes, static_cast<std::uint64_t>(size), &bytes)) {
            throw SaveError("its shape " + shown(shape) + " has more bytes than a file can have");
        }
    }
    return bytes;
}

void check_bytes(const StoredTensor& tensor, std::uint64_t data_bytes) {
    if (tensor.begin > tensor.end || tensor.end > data_bytes) {
        throw SaveError("its data_offsets are " + shown({tensor.begin, tensor.end}) + "; the file has " +
                        std::to_string(data_bytes) + " bytes of tensors");
    }
    const std::uint64_t needed = bytes_of(tensor.shape, tensor.dtype);
    if (tensor.end - tensor.begin != needed) {
        throw SaveError("it has " + std::to_string(tensor.end - tensor.begin) + " bytes; its shape " +
                        shown(tensor.shape) + " of " + tensor.dtype + " needs " + std::to_string(needed));
    }
}

StoredTensor parse_tensor(const std::string& name, const SaveValue& value, std::uint64_t data_bytes) {
    SaveObject object = value.object();
    StoredTensor tensor{name, object.at("dtype").text(),
                        object.at("shape").list("a list of sizes", [](const SaveValue& size) {
                            constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
                            return size.integer(0, kMost, "a whole number from 0 to 2^63 - 1");
                        })};
    const SaveValue offsets = object.at("data_offsets");
    const std::vector<std::uint64_t> ends =
        offsets.list("two whole numbers from 0", [](const SaveValue& offset) { return offset.natural(); });
    if (ends.size() != 2) {
        offsets.refuse("two whole numbers from 0");
    }
    tensor.begin = ends[0];
    tensor.end = ends[1];
    try {
        check_bytes(tensor, data_bytes);
    } catch (const SaveError& error) {
        throw SaveError("the tensor " + shown(name) + ": " + error.what());
    }
    return tensor;
}

/// Tensors must fill 0 to `data_bytes` without holes or overlaps. Precondition: they are sorted by position.
void check_without_holes(const std::vector<StoredTensor>& tensors, std::uint64_t data_bytes) {
    std::uint64_t end = 0;
    for (const StoredTensor& tensor : tensors) {
        if (tensor.begin != end) {
            throw SaveError("the tensor " + shown(tensor.name) + " begins at byte " + std::to_string(tensor.begin) +
                            ", and the one before it ends at " + std::to_string(end) +
                            "; there may be neither overlaps nor holes");
        }
        end = tensor.end;
    }
    if (end != data_bytes) {
        throw SaveError("its tensors end at byte " + std::to_string(end) + "; the file has " +
                        std::to_string(data_bytes) + " bytes of tensors");
    }
}
}  // namespace

std::uint64_t bytes_of_element(const std::string& dtype) {
    static const std::map<std::string, std::uint64_t> bytes = {{"F64", 8}, {"I64", 8},  {"F32", 4}, {"I32", 4},
                                                               {"F16", 2}, {"BF16", 2}, {"I16", 2}, {"I8", 1},
                                                               {"U8", 1},  {"BOOL", 1}};
    const auto found = bytes.find(dtype);
    if (found == bytes.end()) {
        throw SaveError("its dtype is " + shown(dtype) +
                        "; it must be one of F64, F32, F16, BF16, I64, I32, I16, I8, U8 and BOOL");
    }
    return found->second;
}

SafetensorsHeader parse_safetensors_header(std::string_view text, std::uint64_t data_bytes) {
    const json document = parse_json<json>(text, kSaveJson);
    SafetensorsHeader header;
    SaveValue(document, "", kSaveJson).object().for_each([&](const std::string& name, const SaveValue& value) {
        if (name != kMetadata) {
            header.tensors.push_back(parse_tensor(name, value, data_bytes));
            return;
        }
        value.object("an object of texts").for_each([&](const std::string& key, const SaveValue& each) {
            header.metadata.emplace(key, each.text("a text"));
        });
    });
    std::stable_sort(header.tensors.begin(), header.tensors.end(), [](const StoredTensor& a, const StoredTensor& b) {
        return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
    });
    check_without_holes(header.tensors, data_bytes);
    return header;
}

std::string to_json(const SafetensorsHeader& header) {
    nlohmann::ordered_json::object_t members;
    // emplace_back, because checking that the names differ would cost a look-up each, and they are known to differ.
    members.emplace_back(kMetadata, header.metadata);
    for (const StoredTensor& tensor : header.tensors) {
        members.emplace_back(tensor.name,
                             nlohmann::ordered_json{{"dtype", tensor.dtype},
                                                    {"shape", tensor.shape},
                                                    {"data_offsets", std::array{tensor.begin, tensor.end}}});
    }
    std::string text;
    try {
        text = nlohmann::ordered_json(std::move(members)).dump();
    } catch (const json::exception&) {
        throw SaveError("a tensor's name is not UTF-8, and cannot stand in a file; give its layer another name");
    }
    text.resize((text.size() + kAlignment - 1) / kAlignment * kAlignment, ' ');
    return text;
}

FileChecksums write_safetensors(const std::filesystem::path& path, std::vector<TensorToWrite> tensors,
                                std::map<std::string, std::string> metadata) {
    std::stable_sort(tensors.begin(), tensors.end(), [](const TensorToWrite& a, const TensorToWrite& b) {
        return bytes_of_element(a.dtype) > bytes_of_element(b.dtype);
    });
    SafetensorsHeader header{{}, std::move(metadata)};
    std::set<std::string> names = {kMetadata};
    std::uint64_t end = 0;
    for (const TensorToWrite& tensor : tensors) {
        if (!names.insert(tensor.name).second) {
            throw SaveError("two tensors are named " + shown(tensor.name) + "; each needs a name of its own");
        }
        const std::uint64_t begin = end;
        end += bytes_of(tensor.shape, tensor.dtype);
        header.tensors.push_back({tensor.name, tensor.dtype, tensor.shape, begin, end});
    }
    const std::string text = to_json(header);
    const auto length = std::bit_cast<std::array<std::byte, sizeof(HeaderLength)>>(HeaderLength{text.size()});
    FileChecksums checksums{checksum_of(text), {}};
    DurableFile file(path);
    file.write(length);
    file.write(text);
    for (std::size_t k = 0; k < tensors.size(); ++k) {
        const std::shared_ptr<const void> data = tensors[k].data();
        const StoredTensor& stored = header.tensors[k];
        std::span rest(static_cast<const std::byte*>(data.get()), stored.end - stored.begin);
        Checksum checksum;
        while (!rest.empty()) {
            const std::span piece = rest.first(std::min(rest.size(), kPiece));
            checksum.add(piece);
            file.write(piece);
            rest = rest.subspan(piece.size());
        }
        checksums.tensors.emplace(stored.name, checksum.value());
    }
    file.finish();
    return checksums;
}

SafetensorsFile::SafetensorsFile(std::filesystem::path path, std::optional<FileChecksums> checksums)
    : path_(std::move(path)),
      checksums_(std::move(checksums)),
      file_(open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {  // does not wait for a pipe's writer
    if (file_ < 0) {
        throw_file_error(path_, "opened");
    }
    try {
        header_ = read_header();
    } catch (const SaveError& error) {
        close(file_);
        throw SaveError(path_.string() + ": " + error.what());
    } catch (...) {
        close(file_);
        throw;
    }
}

SafetensorsFile::~SafetensorsFile() {
    close(file_);
}

void SafetensorsFile::read(const StoredTensor& tensor, std::span<std::byte> into) const {
    if (into.size() != tensor.end - tensor.begin) {
        throw SaveError(path_.string() + ": " + std::to_string(into.size()) + " bytes of " + shown(tensor.name) +
                        " are asked for; it has " + std::to_string(tensor.end - tensor.begin));
    }
    read_summed(tensor, [&](std::uint64_t begin, std::size_t size) { return into.subspan(begin, size); });
}

void SafetensorsFile::check(const StoredTensor& tensor) const {
    std::vector<std::byte> buffer(std::min<std::uint64_t>(kPiece, tensor.end - tensor.begin));
    read_summed(tensor, [&](std::uint64_t /*begin*/, std::size_t size) { return std::span(buffer).first(size); });
}

/// Reads the tensor in pieces: `place(begin, size)` returns where these bytes of the tensor go.
template <class Place>
void SafetensorsFile::read_summed(const StoredTensor& tensor, Place place) const {
    const std::uint64_t bytes = tensor.end - tensor.begin;
    Checksum checksum;
    for (std::uint64_t begin = 0; begin < bytes; begin += kPiece) {
        const std::span<std::byte> piece = place(begin, std::min<std::uint64_t>(kPiece, bytes - begin));
        read_at(data_begin_ + tensor.begin + begin, piece);
        if (checksums_) {
            checksum.add(piece);
        }
    }
    if (!checksums_) {
        return;
    }
    const auto saved = checksums_->tensors.find(tensor.name);
    if (saved == checksums_->tensors.end()) {
        throw SaveError(path_.string() + ": the tensor " + shown(tensor.name) +
                        " has no checksum in training.json; each has one");
    }
    if (saved->second != checksum.value()) {
        throw SaveError(path_.string() + ": the tensor " + shown(tensor.name) + " has the checksum " +
                        checksum_text(checksum.value()) + "; it was saved with " + checksum_text(saved->second) +
                        "; its bytes were changed since");
    }
}

void SafetensorsFile::read_at(std::uint64_t offset, std::span<std::byte> into) const {
    while (!into.empty()) {
        const ssize_t got = pread(file_, into.data(), into.size(), static_cast<off_t>(offset));
        if (got == 0) {
            throw SaveError(path_.string() + " ends at byte " + std::to_string(offset) +
                            ", within what its header names; it was changed while it was read");
        }
        if (got < 0 && errno != EINTR) {
            throw_file_error(path_, "read");
        }
        into = into.subspan(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
        offset += static_cast<std::uint64_t>(std::max<ssize_t>(got, 0));
    }
}

SafetensorsHeader SafetensorsFile::read_header() {
    struct stat status {};
    if (fstat(file_, &status) != 0 || !S_ISREG(status.st_mode)) {
        throw SaveError("it is no regular file");
    }
    const auto file_bytes = static_cast<std::uint64_t>(status.st_size);
    std::array<std::byte, sizeof(HeaderLength)> prefix{};
    if (file_bytes < prefix.size()) {
        throw SaveError("it has " + std::to_string(file_bytes) + " bytes; a safetensors file has at least 8");
    }
    read_at(0, prefix);
    const auto length = std::bit_cast<HeaderLength>(prefix);
    const std::uint64_t rest = file_bytes - prefix.size();
    if (length > kMostHeaderBytes || length > rest) {
        throw SaveError("its first 8 bytes say that its header has " + std::to_string(length) +
                        " bytes; the file has " + std::to_string(rest) + " more, and a header at most " +
                        std::to_string(kMostHeaderBytes));
    }
    std::string text(length, '\0');
    read_at(prefix.size(), std::as_writable_bytes(std::span(text)));
    if (checksums_ && checksum_of(text) != checksums_->header) {
        throw SaveError("its header has the checksum " + checksum_text(checksum_of(text)) + "; it was saved with " +
                        checksum_text(checksums_->header) + "; it was changed since");
    }
    data_begin_ = prefix.size() + length;
    return parse_safetensors_header(text, rest - length);
}
}  // namespace pipescope
