#pragma once

#include "tests/temporary_folder.h"

#include <sys/types.h>

#include <chrono>
#include <map>
#include <string>
#include <vector>

namespace pipescope::testing_support {
/// The programs of one group of processes, one for each rank.
///
/// Usage: ProcessGroup group(4, "process_trainer", {"5", configuration}); group.wait(); group.output(0);
class ProcessGroup {
public:
    /// Starts `program RANK SIZE RENDEZVOUS arguments..` for each rank; the rendezvous is a free port of this host.
    ProcessGroup(int size, const std::string& program, const std::vector<std::string>& arguments);
    /// Kills what still runs.
    ~ProcessGroup();
    ProcessGroup(const ProcessGroup&) = delete;
    ProcessGroup& operator=(const ProcessGroup&) = delete;

    /// Starts one more process, or one that differs.
    void start(const std::string& program, const std::vector<std::string>& arguments);
    void signal(int process, int number) const;
    /// Returns once all have ended; false if one still runs after `limit`.
    bool wait(std::chrono::seconds limit = std::chrono::seconds(240));
    /// Exit code, or -signal; of processes that wait() has seen end.
    int exit_code(int process) const { return codes_.at(process); }
    std::string output(int process) const { return read(process, "out"); }
    std::string errors(int process) const { return read(process, "err"); }
    int size() const { return static_cast<int>(processes_.size()); }
    const std::string& rendezvous() const { return rendezvous_; }

    /// HOST:PORT that no other test of this user gets for a long time.
    static std::string free_rendezvous();

private:
    std::string file(int process, const std::string& kind) const;
    std::string read(int process, const std::string& kind) const;

    TemporaryFolder folder_;
    std::string rendezvous_;
    std::vector<pid_t> processes_;
    std::map<int, int> codes_;
};
}  // namespace pipescope::testing_support
