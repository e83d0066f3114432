#include "trace/foreign/gzip_stream.h"

#include "base/quantities.h"
#include "trace/store/sqlite_guard.h"
#include "trace/store/trace_records.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <streambuf>
#include <system_error>
#include <utility>
#include <vector>

namespace pipescope {
namespace {
/// zlib's gz interface, which also reads uncompressed files.
class GzipBuffer : public std::streambuf {
public:
    GzipBuffer(const std::filesystem::path& path, ReadProgress progress)
        : path_(path), file_(gzopen(path.c_str(), "rb")), bytes_(kBufferBytes), progress_(std::move(progress)) {
        if (file_ == nullptr) {
            throw TraceError("cannot read " + quoted(path) + ": " + std::strerror(errno) + "; check its permissions");
        }
        gzbuffer(file_, kBufferBytes);
        std::error_code unknown;
        if (const std::uintmax_t size = std::filesystem::file_size(path, unknown); !unknown) {
            file_bytes_ = static_cast<double>(size);
        }
    }
    ~GzipBuffer() override { gzclose(file_); }
    GzipBuffer(const GzipBuffer&) = delete;
    GzipBuffer& operator=(const GzipBuffer&) = delete;

protected:
    int_type underflow() override {
        const int got = gzread(file_, bytes_.data(), static_cast<unsigned>(bytes_.size()));
        int error = Z_OK;
        if (got <= 0) {
            gzerror(file_, &error);  // a file that ends too early reads as if it ended there
        }
        if (got < 0 && error != Z_BUF_ERROR) {
            throw TraceFormatError(
                quoted(path_) + " is damaged: its compressed data cannot be decompressed; download or export it again");
        }
        if (got <= 0) {
            return traits_type::eof();
        }
        unpacked_ += got;
        refuse_bomb();
        if (progress_ && file_bytes_ > 0) {
            progress_(std::min(1.0, static_cast<double>(gzoffset(file_)) / file_bytes_));
        }
        setg(bytes_.data(), bytes_.data(), bytes_.data() + got);
        return traits_type::to_int_type(*gptr());
    }

    /// Goes to the start of the file, and nowhere else.
    pos_type seekpos(pos_type position, std::ios_base::openmode) override {
        if (position != pos_type(0) || gzrewind(file_) != 0) {
            return pos_type(off_type(-1));
        }
        unpacked_ = 0;
        setg(nullptr, nullptr, nullptr);
        return position;
    }

private:
    static constexpr int kBufferBytes = 1 << 18;

    /// Refuses a small file that would unpack without end and fill the memory. Real traces shrink to a twentieth.
    void refuse_bomb() const {
        constexpr std::int64_t kFree = std::int64_t{256} << 20U;
        constexpr std::int64_t kMostRatio = 200;
        if (unpacked_ > kFree && gzdirect(file_) == 0 && unpacked_ / kMostRatio > gzoffset(file_)) {
            throw TraceFormatError(
                fmt::format("{} unpacks to over {} from {}; a packed trace grows to at most {} times its size; unpack "
                            "it with gunzip if you trust it",
                            quoted(path_), format_bytes(unpacked_), format_bytes(gzoffset(file_)), kMostRatio));
        }
    }

    const std::filesystem::path path_;
    gzFile file_;
    std::int64_t unpacked_ = 0;
    std::vector<char> bytes_;
    double file_bytes_ = 0;  // packed size; 0: unknown
    const ReadProgress progress_;
};

class GzipStream : public std::istream {
public:
    GzipStream(const std::filesystem::path& path, ReadProgress progress)
        : std::istream(nullptr), buffer_(path, std::move(progress)) {
        rdbuf(&buffer_);
    }

private:
    GzipBuffer buffer_;
};
}  // namespace

std::unique_ptr<std::istream> open_maybe_packed(const std::filesystem::path& path, ReadProgress progress) {
    return std::make_unique<GzipStream>(path, std::move(progress));
}
}  // namespace pipescope
