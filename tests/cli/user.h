#pragma once

#include "tests/temporary_folder.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <nlohmann/json.hpp>

#include <cstdlib>
#include <filesystem>
#include <string>

namespace pipescope {
struct CommandResult {
    int code = -1;
    std::string out;
    std::string err;

    nlohmann::ordered_json json() const { return nlohmann::ordered_json::parse(out); }
};

/// A user in an empty folder who types shell commands.
class User {
public:
    /// `line` is the text after "pipescope", parsed by the shell. Each command has a time limit of two minutes.
    CommandResult types(const std::string& line) const {
        return types_to_shell("timeout 120 '" PIPESCOPE_BIN_FOLDER "/pipescope' " + line + " >.stdout 2>.stderr");
    }
    CommandResult types_to_shell(const std::string& script) const {
        const std::string command = "cd '" + folder_.path().string() + "' || exit 99\n" + script;
        const int status = std::system(command.c_str());
        CommandResult result;
        result.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128;
        result.out = read_text(folder_ / ".stdout");
        result.err = read_text(folder_ / ".stderr");
        return result;
    }
    /// The same, but expects success.
    CommandResult succeeds(const std::string& line) const {
        CommandResult result = types(line);
        EXPECT_EQ(result.code, 0) << "pipescope " << line << "\n" << result.err;
        return result;
    }

    bool has(const std::string& name) const { return std::filesystem::exists(folder_ / name); }
    std::string reads(const std::string& name) const { return read_text(folder_ / name); }
    void writes(const std::string& name, const std::string& text) const { write_text(folder_ / name, text); }
    const TemporaryFolder& folder() const { return folder_; }

private:
    TemporaryFolder folder_;
};

inline bool is_installed(const std::string& program) {
    return std::filesystem::exists(std::string(PIPESCOPE_BIN_FOLDER "/") + program);
}

inline std::vector<std::string> keys_of(const nlohmann::ordered_json& object) {
    std::vector<std::string> keys;
    for (const auto& [key, value] : object.items()) {
        keys.push_back(key);
    }
    return keys;
}
}  // namespace pipescope
