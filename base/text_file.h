#pragma once

#include "base/error.h"

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace pipescope {
/// A text that is to be read: what it should be, and the limits.
struct TextFile {
    enum class Kind {
        file_or_pipe,  ///< also `<(command)`; waits for the pipe's writer
        file           ///< of a name that no user gave
    };
    static constexpr std::uint64_t kMostBytes = 100'000'000;  ///< as of the header of a safetensors file

    std::string_view what;    ///< "a profile", for the message
    std::string_view remedy;  ///< "make one with 'pipescope profile'"
    Kind kind = Kind::file_or_pipe;
    std::uint64_t most_bytes = kMostBytes;
};

/// The whole text. Throws Error, which starts with the path, for a folder or a device, and for a file that cannot be
/// read, is empty, has more bytes or one that is 0; reads no more than these.
std::string read_text_file(const std::filesystem::path& path, const TextFile& file);

/// Likewise, with an error of another type.
template <class Failure>
std::string read_text_as(const std::filesystem::path& path, const TextFile& file) {
    try {
        return read_text_file(path, file);
    } catch (const Error& error) {
        throw Failure(error.what());
    }
}
}  // namespace pipescope
