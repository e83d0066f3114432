#pragma once

#include "base/error.h"

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace pipescope {
/// What a text file should hold, and its limits.
struct TextFile {
    enum class Kind {
        file_or_pipe,  ///< also `<(command)`; waits for the pipe's writer
        file           ///< a name that no user gave
    };
    static constexpr std::uint64_t kMostBytes = 100'000'000;  ///< the limit of a safetensors header

    std::string_view what;    ///< "a profile", for the message
    std::string_view remedy;  ///< "make one with 'pipescope profile'"
    Kind kind = Kind::file_or_pipe;
    std::uint64_t most_bytes = kMostBytes;
};

/// The whole text. Throws Error, which starts with the path, if the file is a folder or a device, cannot be read, is
/// empty, has more than `most_bytes`, or contains a zero byte.
std::string read_text_file(const std::filesystem::path& path, const TextFile& file);

/// read_text_file() that throws a Failure instead.
template <class Failure>
std::string read_text_as(const std::filesystem::path& path, const TextFile& file) {
    try {
        return read_text_file(path, file);
    } catch (const Error& error) {
        throw Failure(error.what());
    }
}
}  // namespace pipescope
