#pragma once

#include "tests/temporary_folder.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

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
    /// `program` is one of this build.
    explicit User(const std::string& program = "pipescope") : program_("'" PIPESCOPE_BIN_FOLDER "/" + program + "' ") {}

    /// `line` is the text after the program's name, parsed by the shell. Each command has a time limit of two minutes.
    CommandResult types(const std::string& line) const {
        return types_to_shell("timeout 120 " + program_ + line + " >.stdout 2>.stderr");
    }
    /// Types the same, waits until the shell condition `ready` holds, and sends the signals, each after the one before
    /// it was announced.
    CommandResult stops(const std::string& line, const std::string& ready, const std::string& signals) const {
        // A shell starts background processes with SIGINT ignored.
        return types_to_shell("env --default-signal=INT timeout --foreground 100 " + program_ + line +
                              " >.stdout 2>.stderr & waiter=$!\n"
                              "for i in $(seq 900); do sleep 0.1; if " +
                              ready +
                              "; then break; fi; done 2>.none\n"
                              "run=$(pgrep -P $waiter)\nfor s in " +
                              signals +
                              "; do kill -$s $run; for i in $(seq 100); do\n"
                              "if grep -q stopping .stderr || ! kill -0 $run; then break; fi; sleep 0.05; done; done "
                              "2>.none\nwait $waiter");
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
        EXPECT_EQ(result.code, 0) << program_ << line << "\n" << result.err;
        return result;
    }

    bool has(const std::string& name) const { return std::filesystem::exists(folder_ / name); }
    std::string reads(const std::string& name) const { return read_text(folder_ / name); }
    void writes(const std::string& name, const std::string& text) const { write_text(folder_ / name, text); }
    const TemporaryFolder& folder() const { return folder_; }

private:
    std::string program_;  ///< quoted, with a space behind it
    TemporaryFolder folder_;
};

inline bool is_installed(const std::string& program) {
    return std::filesystem::exists(std::string(PIPESCOPE_BIN_FOLDER "/") + program);
}

/// A profile of 8 equal layers: forward `forward_ms`, backward twice that, one sample a micro-batch.
inline std::string emulated_profile(double forward_ms) {
    nlohmann::json layers = nlohmann::json::array();
    for (int i = 0; i < 8; ++i) {
        layers.push_back({{"name", "layer." + std::to_string(i)},
                          {"forward_ns", {std::llround(forward_ms * 1e6)}},
                          {"backward_ns", {std::llround(2 * forward_ms * 1e6)}},
                          {"output_bytes", {65536}},
                          {"saved_bytes", {1 << 20}},
                          {"parameter_bytes", 1 << 20}});
    }
    return nlohmann::json{{"format", "pipescope.profile"}, {"version", 1}, {"samples", {1}}, {"layers", layers}}.dump();
}

inline std::vector<std::string> keys_of(const nlohmann::ordered_json& object) {
    std::vector<std::string> keys;
    for (const auto& [key, value] : object.items()) {
        keys.push_back(key);
    }
    return keys;
}
}  // namespace pipescope
