#include "base/error.h"
#include "base/quantities.h"
#include "base/scratch_folder.h"
#include "base/thread_start.h"
#include "cli/child_process.h"
#include "cli/command_definition.h"
#include "cli/commands.h"
#include "cli/program.h"
#include "cli/stop_signals.h"
#include "cli/temporary_trace.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace pipescope {
namespace {
using Clock = std::chrono::steady_clock;

constexpr std::chrono::minutes kToEnd{10};     // for processes to end after their launcher was killed
constexpr std::chrono::seconds kKillAfter{3};  // after the first failure, for processes that do not end by themselves

struct LaunchFlags {
    int processes = 0;
    int nodes = 1;
    int node_rank = 0;
    std::string rendezvous;
    int restarts = 0;
    int patience = 7;
    int silence = 10;
    std::vector<std::string> command;
};

/// A socket that listens on a free port of the loopback interface. Rank 0 takes it over, so no other program can take
/// the port in between.
class Meeting {
public:
    Meeting() : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        socklen_t size = sizeof(address);
        if (socket_ < 0 || ::bind(socket_, reinterpret_cast<const sockaddr*>(&address), size) != 0 ||
            ::listen(socket_, SOMAXCONN) != 0 ||
            ::getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
            throw Error(fmt::format("no port of this host is free ({}); the processes meet at one; end other programs",
                                    std::strerror(errno)));
        }
        port_ = ntohs(address.sin_port);
    }
    ~Meeting() { ::close(socket_); }
    Meeting(const Meeting&) = delete;
    Meeting& operator=(const Meeting&) = delete;

    int socket() const { return socket_; }
    std::string rendezvous() const { return fmt::format("127.0.0.1:{}", port_); }

private:
    int socket_;
    int port_ = 0;
};

void check(const LaunchFlags& flags) {
    const auto at_least = [](const char* option, int value, int least) {
        if (value < least) {
            throw UsageError(fmt::format("{} is {}; it must be at least {}; use {}", option, value, least, least));
        }
    };
    at_least("-n", flags.processes, 1);
    at_least("--nodes", flags.nodes, 1);
    at_least("--restarts", flags.restarts, 0);
    at_least("--patience", flags.patience, 1);
    at_least("--silence", flags.silence, 1);
    if (flags.node_rank < 0 || flags.node_rank >= flags.nodes) {
        throw UsageError(fmt::format("--node-rank is {}; of {} it counts from 0 to {}; give each node its own",
                                     flags.node_rank, counted(flags.nodes, "node", "nodes"), flags.nodes - 1));
    }
    if (flags.nodes > 1 && flags.rendezvous.empty()) {
        throw UsageError(
            "--nodes is given without --rendezvous; the nodes meet at a port of node 0; give all nodes the same one, "
            "such as --rendezvous node0:29500");
    }
    if (flags.command.empty()) {
        throw UsageError(
            "launch is given no command; it starts one in each process; write it after --, as in "
            "pipescope launch -n 4 -- run MODEL --balance 2,2,2,2");
    }
}

/// Copies lines from a pipe to stderr, each after the rank.
class PrefixedErrors {
public:
    PrefixedErrors(int pipe, int rank)
        : thread_(start_thread(
              "the messages of a process", [=] { copy(pipe, rank); }, [=] { give_up(pipe, rank); })) {}

private:
    static void copy(int pipe, int rank) {
        std::string line;
        std::array<char, 4096> buffer{};
        for (ssize_t count; (count = ::read(pipe, buffer.data(), buffer.size())) > 0 || errno == EINTR;) {
            for (const char each :
                 std::string_view(buffer.data(), static_cast<std::size_t>(std::max<ssize_t>(count, 0)))) {
                line += each;
                if (each == '\n') {
                    std::cerr << fmt::format("[rank {}] {}", rank, line);
                    line.clear();
                }
            }
            if (count == 0) {
                break;
            }
        }
        if (!line.empty()) {
            std::cerr << fmt::format("[rank {}] {}\n", rank, line);
        }
        ::close(pipe);
    }

    /// Gives up on a reader, so that the writing process need not wait for it.
    static void give_up(int pipe, int rank) {
        ::close(pipe);
        std::fprintf(stderr, "pipescope: further messages of rank %d are lost, since there is no memory; free some\n",
                     rank);
    }

    std::jthread thread_;  // joins on destruction
};

/// A process that stops the others and removes their temporary files if the launcher is killed. Nobody else could tell
/// which processes a script has started.
class Guard {
public:
    explicit Guard(const std::filesystem::path& room) {
        if (::pipe2(ends_.data(), O_CLOEXEC) != 0 || (process_ = ::fork()) < 0) {
            throw Error(fmt::format("the launcher cannot start a second process ({}); close other programs",
                                    std::strerror(errno)));
        }
        if (process_ == 0) {
            ::close(ends_[1]);
            stand_guard(ends_[0], room);
        }
        ::close(ends_[0]);
    }
    ~Guard() {
        ::kill(process_, SIGKILL);
        ::waitpid(process_, nullptr, 0);
        ::close(ends_[1]);
    }
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;

    /// Called in the process to watch, so that the launcher cannot end between starting and watching it.
    void watch(pid_t group) const { static_cast<void>(::write(ends_[1], &group, sizeof(group))); }

private:
    [[noreturn]] static void stand_guard(int pipe, const std::filesystem::path& room) {
        ::setpgid(0, 0);  // protects it from the terminal's Ctrl-C and from signals to the launcher's group
        ::prctl(PR_SET_NAME, "launch-guard");
        for (const int each : {SIGINT, SIGTERM, SIGHUP}) {
            ::signal(each, SIG_DFL);
        }
        const int nowhere = ::open("/dev/null", O_RDWR | O_CLOEXEC);
        for (const int each : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
            ::dup2(nowhere, each);  // a reader of the launcher's output need not wait for this process
        }
        std::vector<pid_t> groups;
        pid_t group = 0;
        for (ssize_t count = 0; (count = ::read(pipe, &group, sizeof(group))) != 0;) {
            if (count == sizeof(group)) {
                groups.push_back(group);
            } else if (errno != EINTR) {
                break;
            }
        }
        for (const pid_t each : groups) {
            ::kill(-each, SIGTERM);  // once: a second signal would end a step in the middle
        }
        const auto is_over = [](pid_t each) { return ::kill(-each, 0) != 0; };
        const auto until = Clock::now() + kToEnd;
        while (!std::all_of(groups.begin(), groups.end(), is_over) && Clock::now() < until) {
            std::this_thread::sleep_for(std::chrono::milliseconds(50));
        }
        std::error_code ignored;
        std::filesystem::remove_all(room, ignored);
        ::_exit(0);
    }

    std::array<int, 2> ends_{-1, -1};
    pid_t process_ = 0;
};

/// The command of this program, as in `run ..` or `pipescope run ..`; otherwise the program's name.
std::string called_by(const std::vector<std::string>& command) {
    const bool is_named = command.size() > 1 && std::filesystem::path(command.front()).filename() == "pipescope";
    return command[is_named ? 1 : 0];
}

/// True for `run ..` and `profile --links ..`, which this program runs itself. Everything else is the user's program.
bool is_own(const std::vector<std::string>& command) {
    return called_by(command) == "run" || called_by(command) == "profile";
}

/// Throws UsageError for any other command of this program: launch cannot run it, and the system may have a program of
/// that name.
void check_is_launched(const std::vector<std::string>& command, const std::vector<CommandDefinition>& commands) {
    const std::string name = called_by(command);
    if (!is_own(command) && std::ranges::find(commands, name, &CommandDefinition::name) != commands.end()) {
        throw UsageError(fmt::format(
            "launch is given '{0}', a command of pipescope for one process; it starts run, profile --links or a "
            "program of yours; leave launch out, or write ./{0} if it is a program",
            name));
    }
}

/// False if the same command would fail again: wrong usage, a program that cannot be started, or one of our runs that
/// does not fit into memory.
bool may_succeed_again(const std::vector<std::string>& command, int code) {
    constexpr int kNotExecutable = 126;
    constexpr int kNotFound = 127;
    return code != static_cast<int>(ExitCode::usage) && code != kNotExecutable && code != kNotFound &&
           !(is_own(command) && code == static_cast<int>(ExitCode::infeasible));
}

/// One attempt to run the processes of this node.
class Attempt {
public:
    Attempt(const LaunchFlags& flags, const std::vector<std::string>& command, int number);
    ~Attempt() {
        signal_all(SIGKILL);
        wait_for_all(std::nullopt);
    }
    Attempt(const Attempt&) = delete;
    Attempt& operator=(const Attempt&) = delete;

    /// Exit code of the first process that failed; 0 if none did.
    int run();

private:
    struct Child {
        int rank;
        pid_t process;
        bool ended = false;
    };
    using Pipes = std::vector<std::pair<int, int>>;  // pipes of stderr, with their ranks
    Pipes start_all(const std::vector<std::string>& command, int number);
    void start(const std::vector<std::string>& command, int rank, const std::vector<std::string>& variables,
               Pipes& pipes);
    void signal_all(int signal) const;
    /// False if some processes still run at that time.
    bool wait_for_all(std::optional<Clock::time_point> until);
    bool reap();

    const LaunchFlags& flags_;
    const ScratchFolder room_{temporary_folder()};  // for the processes' files: a killed process leaves them behind
    const Guard guard_{room_.path()};
    std::vector<Child> children_;
    std::vector<PrefixedErrors> errors_;
    int first_code_ = 0;
    bool usage_ = false;                          // some process was used wrongly, which the others only hear of
    std::optional<Clock::time_point> first_end_;  // when the first process failed
    int forwarded_ = 0;                           // the signal, or 0
    bool is_killing_ = false;                     // kills the processes that still run
};

Attempt::Attempt(const LaunchFlags& flags, const std::vector<std::string>& command, int number) : flags_(flags) {
    Pipes pipes;
    try {
        pipes = start_all(command, number);
    } catch (...) {
        forwarded_ = SIGKILL;  // the exception has the reason
        signal_all(SIGKILL);
        wait_for_all(std::nullopt);
        throw;
    }
    for (const auto& [pipe, rank] : pipes) {  // after the forks, which should happen in one thread
        errors_.emplace_back(pipe, rank);
    }
}

Attempt::Pipes Attempt::start_all(const std::vector<std::string>& command, int number) {
    std::optional<Meeting> meeting;
    Pipes pipes;
    if (flags_.rendezvous.empty()) {
        meeting.emplace();
    }
    for (int k = 0; k < flags_.processes; ++k) {
        const int rank = flags_.node_rank * flags_.processes + k;
        std::vector<std::string> variables = {
            fmt::format("PIPESCOPE_RANK={}", rank),
            fmt::format("PIPESCOPE_SIZE={}", flags_.nodes * flags_.processes),
            fmt::format("PIPESCOPE_RENDEZVOUS={}", meeting ? meeting->rendezvous() : flags_.rendezvous),
            fmt::format("PIPESCOPE_ATTEMPT={}", number),
            fmt::format("PIPESCOPE_PATIENCE={}", flags_.patience),
            fmt::format("PIPESCOPE_SILENCE={}", flags_.silence),
            fmt::format("{}={}", kLaunchersFolder, room_.path().string())};
        // The store asks the DNS for the name of each address, although nobody reads it. A server that does not answer
        // would delay every connection by 5 s.
        if (std::getenv("RES_OPTIONS") == nullptr) {
            variables.push_back("RES_OPTIONS=timeout:1 attempts:1");
        }
        if (meeting) {
            ::fcntl(meeting->socket(), F_SETFD, rank == 0 ? 0 : FD_CLOEXEC);
            if (rank == 0) {
                variables.push_back(fmt::format("PIPESCOPE_LISTENING={}", meeting->socket()));
            }
        }
        start(command, rank, variables, pipes);
    }
    return pipes;
}

void Attempt::start(const std::vector<std::string>& command, int rank, const std::vector<std::string>& variables,
                    Pipes& pipes) {
    std::vector<std::string> words = command;
    const std::vector<char*> arguments = pointers_to(words);
    std::array<int, 2> ends{-1, -1};
    if (rank != 0 && ::pipe2(ends.data(), O_CLOEXEC) != 0) {
        throw Error(
            fmt::format("no pipe can be opened for rank {} ({}); close other programs", rank, std::strerror(errno)));
    }
    const pid_t parent = ::getpid();
    const pid_t process = ::fork();
    if (process < 0) {
        throw Error(fmt::format("rank {} cannot be started ({}); start fewer processes", rank, std::strerror(errno)));
    }
    if (process == 0) {
        ::setpgid(0, 0);  // so that the terminal's Ctrl-C reaches it only once, through the launcher
        guard_.watch(::getpid());
        if (::getppid() != parent) {
            ::_exit(1);
        }
        if (ends[1] >= 0) {
            ::dup2(ends[1], STDERR_FILENO);
        }
        for (const std::string& each : variables) {
            ::putenv(const_cast<char*>(each.c_str()));
        }
        ::signal(SIGXFSZ, SIG_DFL);  // only Program::run() ignores it
        ::execvp(arguments.front(), arguments.data());
        const std::string message =
            fmt::format("pipescope: {} cannot be started ({}); check its name, and that it is executable\n",
                        words.front(), std::strerror(errno));
        static_cast<void>(::write(STDERR_FILENO, message.data(), message.size()));
        ::_exit(127);
    }
    ::setpgid(process, process);  // here too, so that it is done before the first signal
    children_.push_back({rank, process});
    if (ends[1] >= 0) {
        ::close(ends[1]);
        pipes.emplace_back(ends[0], rank);
    }
}

void Attempt::signal_all(int signal) const {
    for (const Child& child : children_) {
        if (!child.ended) {
            ::kill(-child.process, signal);  // to its group: a script passes it on to what it runs
        }
    }
}

/// Notes which processes have ended. False if all have.
bool Attempt::reap() {
    bool some_run = false;
    for (Child& child : children_) {
        int status = 0;
        if (child.ended || ::waitpid(child.process, &status, WNOHANG) == 0) {
            some_run = some_run || !child.ended;
            continue;
        }
        child.ended = true;
        const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        usage_ = usage_ || code == static_cast<int>(ExitCode::usage);
        if (code != 0 && !first_end_) {
            first_end_ = Clock::now();
            first_code_ = code;
            if (WIFEXITED(status) && !is_own(flags_.command) && forwarded_ == 0) {  // ours report why they fail
                std::cerr << fmt::format("pipescope: rank {} ended with exit code {}\n", child.rank, code);
            }
        }
        if (is_killing_) {
            std::cerr << fmt::format("pipescope: rank {} still ran {} s after the first had ended, so it was killed\n",
                                     child.rank, kKillAfter.count());
        } else if (WIFSIGNALED(status) && forwarded_ == 0) {
            std::cerr << fmt::format("pipescope: rank {} was ended by signal {} ({})\n", child.rank, WTERMSIG(status),
                                     ::strsignal(WTERMSIG(status)));
        }
    }
    return some_run;
}

bool Attempt::wait_for_all(std::optional<Clock::time_point> until) {
    while (reap()) {
        if (until && Clock::now() > *until) {
            return false;
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return true;
}

int Attempt::run() {
    while (reap()) {
        if (const int signal = stop_signal(); signal != 0 && forwarded_ == 0) {
            forwarded_ = signal;
            signal_all(signal);
        }
        if (first_end_) {
            // The others notice the failure, except while they are still meeting.
            if (!wait_for_all(*first_end_ + kKillAfter)) {
                is_killing_ = true;
                signal_all(SIGKILL);
                wait_for_all(std::nullopt);
            }
            break;
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    for (const Child& child : children_) {
        ::kill(-child.process, SIGKILL);  // ends what a script may have left behind
    }
    return usage_ ? static_cast<int>(ExitCode::usage) : first_code_;
}

std::vector<std::string> full_command(const std::vector<std::string>& command) {
    if (command.front() != "run" && command.front() != "profile") {
        return command;
    }
    std::vector<std::string> full = {torch_program_for(command.front()).string()};
    full.insert(full.end(), command.begin(), command.end());
    return full;
}

/// The value of an option in a command line; empty without the option.
std::string value_of(const std::vector<std::string>& command, const std::string& option) {
    for (std::size_t k = 0; k < command.size(); ++k) {
        if (command[k] == option && k + 1 < command.size()) {
            return command[k + 1];
        }
        if (command[k].starts_with(option + "=")) {
            return command[k].substr(option.size() + 1);
        }
    }
    return {};
}

/// Throws UsageError for more processes than `run` can have lanes, before any process starts. The processes check the
/// rest.
void check_lanes(const LaunchFlags& flags) {
    const std::string balance = value_of(flags.command, "--balance");
    if (called_by(flags.command) != "run" || balance.empty()) {
        return;
    }
    const std::string replicas = value_of(flags.command, "--replicas");
    const auto partitions = std::count(balance.begin(), balance.end(), ',') + 1;
    const long long most = partitions * std::max(1LL, std::atoll(replicas.c_str()));
    if (const long long all = static_cast<long long>(flags.nodes) * flags.processes; all > most) {
        throw UsageError(fmt::format(
            "{} would run {} with --balance {}; each process needs at least one lane; start fewer processes, "
            "or cut the model into more partitions",
            counted(all, "process", "processes"),
            counted(most, "lane", replicas.empty() ? "lanes" : "lanes of all replicas"), balance));
    }
}

ExitCode launch(const LaunchFlags& flags, const Program& program) {
    check(flags);
    check_is_launched(flags.command, program.definitions());
    check_lanes(flags);
    const StopSignals signals;
    std::vector<std::string> command = full_command(flags.command);
    for (int attempt = 0;; ++attempt) {
        const int code = Attempt(flags, command, attempt).run();
        if (code != 0 && stop_signal() != 0) {
            return stop_exit_code();
        }
        if (code == 0 || attempt == flags.restarts || !may_succeed_again(flags.command, code)) {
            return static_cast<ExitCode>(code);
        }
        std::cerr << fmt::format("pipescope: starting again ({} of {})\n", attempt + 1,
                                 counted(flags.restarts, "restart", "restarts"));
        if (called_by(flags.command) == "run" &&
            std::find(command.begin(), command.end(), "--resume") == command.end() &&
            std::find(command.begin(), command.end(), "--save") != command.end()) {
            command.emplace_back("--resume");
        }
    }
}
}  // namespace

void add_launch_command(Program& program) {
    const auto flags = std::make_shared<LaunchFlags>();
    CLI::App* command = program.add_command(
        "launch", "Run a command in several processes that train one model",
        "Example:\n"
        "  pipescope launch -n 4 -- run transformer:layers=6 --balance 2,2,2,2 -m 8 --batch 32\n"
        "Lane k of L belongs to process k * N / L. On several hosts, start it on each:\n"
        "  pipescope launch -n 2 --nodes 2 --node-rank 0 --rendezvous node0:29500 -- run ..\n"
        "The command may also be a program of yours that uses the library. If one process fails, all end; with\n"
        "--restarts all start again, and 'run --save DIR' continues from its last saved step. torchrun --no-python,\n"
        "srun and mpirun can start 'pipescope run' themselves.");
    command->add_option("-n", flags->processes, "Processes on this host")->required()->type_name("N");
    command->add_option("--nodes", flags->nodes, "Hosts; default 1")->type_name("N");
    command->add_option("--node-rank", flags->node_rank, "Number of this host, from 0; default 0")->type_name("R");
    command->add_option("--rendezvous", flags->rendezvous, "Host 0 and a free port of it; default: a port of this host")
        ->type_name("HOST:PORT");
    command->add_option("--restarts", flags->restarts, "Times to start again after a failure; default 0")
        ->type_name("K");
    command->add_option("--patience", flags->patience, "Seconds to wait until all processes have joined; default 7")
        ->type_name("S");
    command
        ->add_option("--silence", flags->silence,
                     "Seconds without a message after which a process counts as dead; default 10")
        ->type_name("S");
    command->add_option("COMMAND", flags->command, "After --: run or profile --links with options, or a program");
    command->positionals_at_end();
    program.set_action(command, [flags, &program] { return launch(*flags, program); });
}
}  // namespace pipescope
