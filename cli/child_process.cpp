#include "cli/child_process.h"

#include "schedule/error.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>

extern char** environ;

namespace pipescope {
namespace {
namespace fs = std::filesystem;

std::vector<std::string> command_of(const fs::path& program, const std::vector<std::string>& arguments) {
    std::vector<std::string> command{program.string()};
    command.insert(command.end(), arguments.begin(), arguments.end());
    return command;
}

[[noreturn]] void refuse_start(const fs::path& program, int error) {
    throw Error(fmt::format("{} cannot be started ({}); check that it is installed and executable", program.string(),
                            std::strerror(error)));
}

std::string read_to_end(int descriptor) {
    std::string text;
    std::array<char, 4096> buffer{};
    while (true) {
        const ssize_t count = read(descriptor, buffer.data(), buffer.size());
        if (count > 0) {
            text.append(buffer.data(), static_cast<std::size_t>(count));
        } else if (count == 0 || errno != EINTR) {
            return text;
        }
    }
}

int wait_for(pid_t child) {
    int status = 0;
    while (waitpid(child, &status, 0) < 0) {
        if (errno != EINTR) {
            throw Error(fmt::format("cannot wait for process {} ({}); try again", child, std::strerror(errno)));
        }
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
}  // namespace

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
    std::vector<char*> pointers;
    pointers.reserve(texts.size() + 1);
    for (std::string& text : texts) {
        pointers.push_back(text.data());
    }
    pointers.push_back(nullptr);
    return pointers;
}

bool is_executable(const fs::path& path) {
    std::error_code ignored;
    return fs::is_regular_file(path, ignored) && access(path.c_str(), X_OK) == 0;
}

std::optional<fs::path> program_beside(const std::string& name) {
    std::error_code error;
    const fs::path self = fs::read_symlink("/proc/self/exe", error);
    if (error) {
        return std::nullopt;
    }
    fs::path program = self.parent_path() / name;
    return is_executable(program) ? std::optional(std::move(program)) : std::nullopt;
}

std::optional<fs::path> torch_program() {
    if (auto program = program_beside("pipescope-torch")) {
        return program;
    }
    const char* named = std::getenv("PIPESCOPE_TORCH_PROGRAM");
    return named != nullptr && is_executable(named) ? std::optional<fs::path>(named) : std::nullopt;
}

namespace {
/// Where LibTorch is loaded into less, it ends the process without a word about the cause. Its largest library has
/// more.
constexpr std::uint64_t kLeastAddresses = 420'000'000;

void refuse_too_few_addresses(const std::string& command) {
    rlimit limit{};
    if (::getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur < kLeastAddresses) {
        throw Error(
            fmt::format("the limit of memory (ulimit -v) is {} MB; '{}' needs LibTorch, which takes more than {} MB of "
                        "addresses to be loaded; raise the limit",
                        limit.rlim_cur / 1'000'000, command, kLeastAddresses / 1'000'000));
    }
}
}  // namespace

fs::path torch_program_for(const std::string& command) {
    const auto program = torch_program();
    if (!program) {
        throw Error(
            fmt::format("'{}' needs pipescope-torch, which is not in this program's folder; it holds all that needs "
                        "LibTorch; build with -DPIPESCOPE_TORCH=ON, or install it into the same folder; of Python's "
                        "packages, pipescope-torch has it, for the minor versions of torch in its summary",
                        command));
    }
    refuse_too_few_addresses(command);
    return *program;
}

fs::path viewer_program() {
    const auto program = program_beside("pipescope-gui");
    if (!program) {
        throw Error(
            "view needs pipescope-gui, which is not in this program's folder; build with -DPIPESCOPE_GUI=ON, or "
            "install it into the same folder");
    }
    constexpr int kNotLoaded = 127;  // by the dynamic linker
    const ChildResult result = run_child(*program, {"--help"}, {}, ChildErrors::take);
    if (result.exit_code == kNotLoaded) {
        throw Error(fmt::format(
            "the viewer cannot be loaded: {}; install Qt 6 (Debian: libqt6widgets6, libqt6printsupport6, libqt6svg6), "
            "or PySide6-Essentials beside the Python package, and its libraries (Debian: libegl1, libgl1, "
            "libxkbcommon0, libfontconfig1, libdbus-1-3); 'ldd {}' lists all that is missing",
            result.output.substr(0, result.output.find('\n')), program->string()));
    }
    return *program;
}

void execute(const fs::path& program, const std::vector<std::string>& arguments) {
    std::vector<std::string> command = command_of(program, arguments);
    execv(program.c_str(), pointers_to(command).data());
    refuse_start(program, errno);
}

ChildResult run_child(const fs::path& program, const std::vector<std::string>& arguments,
                      const std::vector<std::string>& environment, ChildErrors errors) {
    std::vector<std::string> command = command_of(program, arguments);
    std::vector<std::string> variables;
    for (char** variable = environ; *variable != nullptr; ++variable) {
        variables.emplace_back(*variable);
    }
    // getenv returns the first of two equal names, so ours come first.
    variables.insert(variables.begin(), environment.begin(), environment.end());

    std::array<int, 2> pipe_ends{};
    if (pipe2(pipe_ends.data(), O_CLOEXEC) != 0) {
        refuse_start(program, errno);
    }
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, pipe_ends[1], STDOUT_FILENO);
    if (errors == ChildErrors::take) {
        posix_spawn_file_actions_adddup2(&actions, pipe_ends[1], STDERR_FILENO);
    } else if (errors == ChildErrors::hide) {
        posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    }
    pid_t child = 0;
    const int error = posix_spawn(&child, program.c_str(), &actions, nullptr, pointers_to(command).data(),
                                  pointers_to(variables).data());
    posix_spawn_file_actions_destroy(&actions);
    close(pipe_ends[1]);
    if (error != 0) {
        close(pipe_ends[0]);
        refuse_start(program, error);
    }
    ChildResult result;
    result.output = read_to_end(pipe_ends[0]);
    close(pipe_ends[0]);
    result.exit_code = wait_for(child);
    return result;
}
}  // namespace pipescope
