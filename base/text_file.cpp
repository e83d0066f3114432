#include "base/text_file.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace pipescope {
namespace {
constexpr std::size_t kPiece = std::size_t{1} << 16;

class Descriptor {
public:
    /// Does not wait for the writer of a pipe.
    explicit Descriptor(const std::filesystem::path& path)
        : number_(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)) {}
    ~Descriptor() {
        if (number_ >= 0) {
            close(number_);
        }
    }
    Descriptor(const Descriptor&) = delete;
    Descriptor& operator=(const Descriptor&) = delete;

    int number() const { return number_; }

private:
    int number_;
};

/// Appends a piece. Returns its size; 0 at the end, -1 with errno after a failure.
ssize_t read_piece(int file, std::string& text, std::size_t most) {
    const std::size_t before = text.size();
    text.resize(before + most);
    ssize_t size = -1;
    do {
        pollfd ready{file, POLLIN, 0};
        poll(&ready, 1, -1);  // a pipe without a writer would look like one at its end
        size = read(file, text.data() + before, most);
    } while (size < 0 && (errno == EINTR || errno == EAGAIN));
    text.resize(before + static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
    return size;
}
}  // namespace

std::string read_text_file(const std::filesystem::path& path, const TextFile& file) {
    const auto refuse = [&](const std::string& fault, std::string_view rule, std::string_view advice) {
        throw Error((path.empty() ? "''" : path.string())
                        .append(": ")
                        .append(fault)
                        .append("; ")
                        .append(file.what)
                        .append(rule)
                        .append("; ")
                        .append(advice));
    };
    const std::string most = std::to_string(file.most_bytes);
    const Descriptor opened(path);
    if (opened.number() < 0) {
        const std::string why = errno == ENOENT ? "" : std::string(" (") + std::strerror(errno) + ")";
        refuse("cannot be opened" + why, " must be a readable file",
               std::string("check the path, or ").append(file.remedy));
    }
    struct stat status {};
    fstat(opened.number(), &status);
    if (S_ISDIR(status.st_mode)) {
        refuse("is a directory", " is a file", "name the file in it");
    }
    const bool takes_pipes = file.kind == TextFile::Kind::file_or_pipe;
    const bool is_typed = S_ISCHR(status.st_mode) && isatty(opened.number()) != 0;
    if (!S_ISREG(status.st_mode) &&
        !(takes_pipes && (S_ISFIFO(status.st_mode) || S_ISSOCK(status.st_mode) || is_typed))) {
        refuse(takes_pipes ? "is a device" : "is no regular file", takes_pipes ? " is a file or a pipe" : " is a file",
               file.remedy);
    }
    std::string text;
    if (S_ISREG(status.st_mode) && static_cast<std::uint64_t>(status.st_size) <= file.most_bytes) {
        text.reserve(static_cast<std::size_t>(status.st_size) + kPiece);
    }
    for (ssize_t size = 1; size > 0 && text.size() <= file.most_bytes;) {
        size = read_piece(opened.number(), text, kPiece);
        if (size < 0) {
            refuse(std::string("cannot be read (") + std::strerror(errno) + ")", " must be a readable file",
                   file.remedy);
        }
    }
    if (text.size() > file.most_bytes) {
        refuse("is larger than " + most + " bytes", " has at most as many", file.remedy);
    }
    if (text.empty()) {
        refuse("is empty", " is not", file.remedy);
    }
    if (text.starts_with("SQLite format 3")) {
        refuse("is an SQLite file, such as a trace", " is a text", file.remedy);
    }
    if (const std::size_t zero = text.find('\0'); zero != std::string::npos) {  // parsers of JSON end there
        refuse("byte " + std::to_string(zero + 1) + " is 0", " is a text without such bytes", file.remedy);
    }
    return text;
}
}  // namespace pipescope
