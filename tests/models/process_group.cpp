#include "tests/models/process_group.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <filesystem>
#include <stdexcept>
#include <thread>

namespace pipescope::testing_support {
namespace {
bool is_free(std::uint16_t port) {
    const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_ANY);
    address.sin_port = htons(port);
    const bool is_bound = ::bind(socket, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
    ::close(socket);
    return is_bound;
}
}  // namespace

std::string ProcessGroup::free_rendezvous() {
    // Tests that run side by side take turns, and the kernel gives these ports to nobody who does not name one.
    constexpr int kFirst = 20000;
    constexpr int kCount = 9000;
    const std::string path =
        std::filesystem::temp_directory_path() / ("pipescope-test-port." + std::to_string(::getuid()));
    const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    int next = 0;
    if (file < 0 || ::flock(file, LOCK_EX) != 0 || ::pread(file, &next, sizeof(next), 0) < 0) {
        throw std::runtime_error("cannot use " + path);
    }
    for (int tries = 0; tries < kCount; ++tries) {
        const int port = kFirst + next;
        next = (next + 1) % kCount;
        if (is_free(static_cast<std::uint16_t>(port))) {
            const bool is_noted = ::pwrite(file, &next, sizeof(next), 0) == sizeof(next);
            ::close(file);
            if (!is_noted) {
                throw std::runtime_error("cannot write " + path);
            }
            return "127.0.0.1:" + std::to_string(port);
        }
    }
    ::close(file);
    throw std::runtime_error("no free port");
}

ProcessGroup::ProcessGroup(int size, const std::string& program, const std::vector<std::string>& arguments)
    : rendezvous_(free_rendezvous()) {
    for (int rank = 0; rank < size; ++rank) {
        std::vector<std::string> all = {std::to_string(rank), std::to_string(size), rendezvous_};
        all.insert(all.end(), arguments.begin(), arguments.end());
        start(program, all);
    }
}

ProcessGroup::~ProcessGroup() {
    for (int k = 0; k < size(); ++k) {
        if (!codes_.contains(k)) {
            ::kill(processes_[static_cast<std::size_t>(k)], SIGKILL);
            ::waitpid(processes_[static_cast<std::size_t>(k)], nullptr, 0);
        }
    }
}

void ProcessGroup::start(const std::string& program, const std::vector<std::string>& arguments) {
    const int number = size();
    std::vector<char*> words = {const_cast<char*>(program.c_str())};
    for (const std::string& each : arguments) {
        words.push_back(const_cast<char*>(each.c_str()));
    }
    words.push_back(nullptr);
    const std::string out = file(number, "out");
    const std::string err = file(number, "err");
    const pid_t process = ::fork();
    if (process == 0) {
        ::dup2(::open(out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), STDOUT_FILENO);
        ::dup2(::open(err.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), STDERR_FILENO);
        ::setenv("RES_OPTIONS", "timeout:1 attempts:1", 1);  // as launch does
        ::execv(program.c_str(), words.data());
        ::_exit(127);
    }
    processes_.push_back(process);
}

void ProcessGroup::signal(int process, int number) const {
    ::kill(processes_[static_cast<std::size_t>(process)], number);
}

bool ProcessGroup::wait(std::chrono::seconds limit) {
    const auto until = std::chrono::steady_clock::now() + limit;
    while (static_cast<int>(codes_.size()) < size()) {
        for (int k = 0; k < size(); ++k) {
            int status = 0;
            if (!codes_.contains(k) && ::waitpid(processes_[static_cast<std::size_t>(k)], &status, WNOHANG) > 0) {
                codes_[k] = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
            }
        }
        if (std::chrono::steady_clock::now() > until) {
            return false;
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    return true;
}

std::string ProcessGroup::file(int process, const std::string& kind) const {
    return (folder_ / (kind + std::to_string(process))).string();
}

std::string ProcessGroup::read(int process, const std::string& kind) const {
    return read_text(file(process, kind));
}
}  // namespace pipescope::testing_support
