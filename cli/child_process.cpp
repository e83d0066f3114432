#include "cli/child_process.h"

#include "base/error.h"
#include "cli/stop_signals.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

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

/// Passes a requested stop on to the child once, at most a tenth of a second late.
class StopForwarder {
public:
    explicit StopForwarder(pid_t child) : child_(child) {}

    /// Returns when the descriptor can be read.
    void wait_for(int descriptor) {
        constexpr int kPauseInMilliseconds = 100;
        pollfd waits{descriptor, POLLIN, 0};
        do {
            if (const int signal_number = stop_signal(); signal_number != 0 && !is_stopped_) {
                kill(child_, signal_number);
                is_stopped_ = true;
            }
        } while (poll(&waits, 1, kPauseInMilliseconds) <= 0);
    }

private:
    pid_t child_;
    bool is_stopped_ = false;
};

std::string read_to_end(int descriptor, StopForwarder* stops = nullptr) {
    std::string text;
    std::array<char, 4096> buffer{};
    while (true) {
        if (stops != nullptr) {
            stops->wait_for(descriptor);
        }
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
/// With less address space, LibTorch ends the process without naming the cause. Its largest library needs more than
/// this.
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
            fmt::format("'{}' needs pipescope-torch, which holds all that needs LibTorch and is not installed; {}",
                        command, kTorchRemedy));
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
    constexpr int kNotLoaded = 127;  // exit code of the dynamic linker
    const ChildResult result = run_child(*program, {"--help"}, {}, ChildErrors::take);
    if (result.exit_code == kNotLoaded) {
        throw Error(fmt::format(
            "the viewer cannot be loaded: {}; install Qt 6 (Debian: libqt6widgets6, libqt6printsupport6, libqt6svg6), "
            "or PySide6-Essentials beside the Python package, and its libraries (Debian: libegl1, libgl1, "
            "libxkbcommon0, libfontconfig1, libdbus-1-3); 'ldd {}' lists all that is missing",
            result.first_line(), program->string()));
    }
    return *program;
}

void execute(const fs::path& program, const std::vector<std::string>& arguments) {
    std::vector<std::string> command = command_of(program, arguments);
    execv(program.c_str(), pointers_to(command).data());
    refuse_start(program, errno);
}

namespace {
class Pipe {
public:
    explicit Pipe(const fs::path& program) {
        if (pipe2(ends_.data(), O_CLOEXEC) != 0) {
            refuse_start(program, errno);
        }
    }
    ~Pipe() {
        close_end(0);
        close_end(1);
    }
    Pipe(const Pipe&) = delete;
    Pipe& operator=(const Pipe&) = delete;

    /// End 0 is read, end 1 is written.
    int end(std::size_t which) const { return ends_.at(which); }
    void close_end(std::size_t which) {
        if (const int descriptor = std::exchange(ends_.at(which), -1); descriptor >= 0) {
            close(descriptor);
        }
    }

private:
    std::array<int, 2> ends_{-1, -1};
};

struct ChildImage {
    const char* program;
    char* const* argv;
    char* const* envp;
    int output;
    ChildErrors errors;
};

/// In the child: becomes the program, or writes errno and ends. Async-signal-safe, because other threads of the parent
/// may hold locks. The child ends with its parent, whose temporary files it may read.
[[noreturn]] void become(const ChildImage& image, pid_t parent, int failure) {
    constexpr int kNotStarted = 127;
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent) {  // the parent has already ended
        _exit(kNotStarted);
    }
    int errors = STDERR_FILENO;
    if (image.errors == ChildErrors::take) {
        errors = image.output;
    } else if (image.errors == ChildErrors::hide) {
        errors = open("/dev/null", O_WRONLY | O_CLOEXEC);
    }
    const bool is_set = errors == STDERR_FILENO || dup2(errors, STDERR_FILENO) >= 0;
    if (is_set && dup2(image.output, STDOUT_FILENO) >= 0) {
        execve(image.program, image.argv, image.envp);
    }
    const int error = errno;
    [[maybe_unused]] const ssize_t written = write(failure, &error, sizeof error);
    _exit(kNotStarted);
}
}  // namespace

ChildResult run_child(const fs::path& program, const std::vector<std::string>& arguments,
                      const std::vector<std::string>& environment, ChildErrors errors) {
    std::vector<std::string> command = command_of(program, arguments);
    std::vector<std::string> variables;
    for (char** variable = environ; *variable != nullptr; ++variable) {
        variables.emplace_back(*variable);
    }
    // getenv returns the first of two variables with one name, so ours come first.
    variables.insert(variables.begin(), environment.begin(), environment.end());

    const std::vector<char*> argv = pointers_to(command);
    const std::vector<char*> envp = pointers_to(variables);
    Pipe output(program);
    Pipe failure(program);  // a successful exec closes it
    const pid_t parent = getpid();
    const pid_t child = fork();
    if (child < 0) {
        refuse_start(program, errno);
    }
    if (child == 0) {
        become({program.c_str(), argv.data(), envp.data(), output.end(1), errors}, parent, failure.end(1));
    }
    output.close_end(1);
    failure.close_end(1);
    if (const std::string error = read_to_end(failure.end(0)); error.size() == sizeof(int)) {
        wait_for(child);
        int number = 0;
        std::memcpy(&number, error.data(), sizeof number);
        refuse_start(program, number);
    }
    ChildResult result;
    StopForwarder stops(child);
    result.output = read_to_end(output.end(0), &stops);
    result.exit_code = wait_for(child);
    return result;
}
}  // namespace pipescope
