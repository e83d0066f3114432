#include "cli/torch/process_environment.h"

#include "base/error.h"
#include "base/number_text.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <functional>

namespace pipescope {
namespace {
constexpr std::uint64_t kFirstPort = 20000;  // below the ports that the system assigns
constexpr std::uint64_t kNumPorts = 10000;

class Variables {
public:
    explicit Variables(const Environment& environment) : environment_(environment) {}

    std::optional<std::string> text(const std::string& name) const { return environment_(name); }
    std::optional<int> number(const std::string& name, int least = 0) const {
        const auto value = text(name);
        if (!value) {
            return std::nullopt;
        }
        const auto parsed = number_in<int>(*value);
        if (!parsed || *parsed < least) {
            throw UsageError(
                fmt::format("the variable {} is '{}'; it must be a whole number from {}; unset it, or "
                            "start the processes with 'pipescope launch'",
                            name, *value, least));
        }
        return parsed;
    }
    /// A number that the variable `with` requires.
    int needed(const std::string& name, const std::string& with) const {
        if (const auto value = number(name)) {
            return *value;
        }
        throw UsageError(
            fmt::format("the variable {} is set and {} is not; a launcher sets both; unset it, or start "
                        "the processes with 'pipescope launch'",
                        with, name));
    }
    std::optional<std::string> master() const {
        const auto host = text("MASTER_ADDR");
        if (!host && text("MASTER_PORT")) {
            throw UsageError(
                "the variable MASTER_PORT is set and MASTER_ADDR is not; the processes meet at both; set both, or "
                "unset it");
        }
        return host ? std::optional(fmt::format("{}:{}", *host, number("MASTER_PORT", 1).value_or(29500)))
                    : std::nullopt;
    }

private:
    const Environment& environment_;
};

/// A port that all processes of a job compute, and other jobs probably do not.
std::string rendezvous_of(const std::string& host, const std::string& job) {
    return fmt::format("{}:{}", host, kFirstPort + std::hash<std::string>{}(job) % kNumPorts);
}

std::optional<ProcessOptions> from_launch(const Variables& variables) {
    const auto rank = variables.number("PIPESCOPE_RANK");
    for (const char* other : {"PIPESCOPE_SIZE", "PIPESCOPE_RENDEZVOUS"}) {
        if (!rank && variables.text(other)) {
            variables.needed("PIPESCOPE_RANK", other);
        }
    }
    if (!rank) {
        return std::nullopt;
    }
    ProcessOptions options;
    options.rank = *rank;
    options.size = variables.needed("PIPESCOPE_SIZE", "PIPESCOPE_RANK");
    options.rendezvous = variables.text("PIPESCOPE_RENDEZVOUS").value_or(options.rendezvous);
    options.attempt = variables.number("PIPESCOPE_ATTEMPT").value_or(0);
    options.listening = variables.number("PIPESCOPE_LISTENING").value_or(-1);
    return options;
}

std::optional<ProcessOptions> from_torchrun(const Variables& variables) {
    const auto rank = variables.number("RANK");
    if (!rank || !variables.text("WORLD_SIZE")) {
        return std::nullopt;
    }
    ProcessOptions options;
    options.rank = *rank;
    options.size = variables.needed("WORLD_SIZE", "RANK");
    options.rendezvous = variables.master().value_or(options.rendezvous);
    options.store_is_hosted = variables.text("TORCHELASTIC_USE_AGENT_STORE") == "True";
    options.run = variables.text("TORCHELASTIC_RUN_ID").value_or("0");
    options.attempt = variables.number("TORCHELASTIC_RESTART_COUNT").value_or(0);
    return options;
}

std::optional<ProcessOptions> from_slurm(const Variables& variables) {
    // Only srun sets it; a batch script that runs one process has a SLURM_PROCID too.
    const auto size = variables.number("SLURM_STEP_NUM_TASKS", 1);
    if (!size) {
        return std::nullopt;
    }
    ProcessOptions options;
    options.size = *size;
    options.rank = variables.needed("SLURM_PROCID", "SLURM_STEP_NUM_TASKS");
    const std::string job =
        variables.text("SLURM_JOB_ID").value_or("0") + "." + variables.text("SLURM_STEP_ID").value_or("0");
    const std::string hosts = variables.text("SLURM_STEP_NODELIST").value_or("127.0.0.1");
    options.rendezvous = variables.master().value_or(rendezvous_of(first_host(hosts), job));
    options.run = job;
    options.attempt = variables.number("SLURM_RESTART_COUNT").value_or(0);
    return options;
}

std::optional<ProcessOptions> from_mpi(const Variables& variables) {
    for (const auto& [rank_name, size_name, local_name] :
         {std::array{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"},
          std::array{"PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS"}}) {
        const auto rank = variables.number(rank_name);
        if (!rank) {
            continue;
        }
        ProcessOptions options;
        options.rank = *rank;
        options.size = variables.needed(size_name, rank_name);
        if (const auto master = variables.master()) {
            options.rendezvous = *master;
        } else if (variables.number(local_name) == options.size) {
            // All on this host: children of one process.
            const std::string job = variables.text("PMIX_NAMESPACE").value_or(std::to_string(::getppid()));
            options.rendezvous = rendezvous_of("127.0.0.1", job);
        } else if (options.size > 1) {
            throw UsageError(
                fmt::format("{} is {} of {} on several hosts; mpirun does not say where they meet; set "
                            "MASTER_ADDR to the host of rank 0, as in mpirun -x MASTER_ADDR=node1",
                            rank_name, *rank, options.size));
        }
        return options;
    }
    return std::nullopt;
}
}  // namespace

std::optional<ProcessOptions> processes_from(const Environment& environment) {
    const Variables variables(environment);
    for (const auto& launcher : {from_launch, from_torchrun, from_slurm, from_mpi}) {
        if (auto options = launcher(variables)) {
            if (options->size == 1) {
                return std::nullopt;
            }
            if (const auto seconds = variables.number("PIPESCOPE_PATIENCE", 1)) {
                options->patience = std::chrono::seconds(*seconds);
            }
            if (const auto seconds = variables.number("PIPESCOPE_SILENCE", 1)) {
                options->silence = std::chrono::seconds(*seconds);
            }
            return options;
        }
    }
    return std::nullopt;
}

std::optional<std::string> environment_variable(const std::string& name) {
    const char* const value = std::getenv(name.c_str());
    return value != nullptr && *value != '\0' ? std::optional<std::string>(value) : std::nullopt;
}

std::string first_host(const std::string& slurm_list) {
    const std::size_t bracket = slurm_list.find('[');
    const std::size_t end = slurm_list.find(',');
    if (bracket == std::string::npos || (end != std::string::npos && end < bracket)) {
        return slurm_list.substr(0, end);
    }
    // "name[07-12,20]suffix": takes the first number, with its zeros.
    const std::size_t close = slurm_list.find(']', bracket);
    const std::string ranges = slurm_list.substr(bracket + 1, close - bracket - 1);
    const std::string number = ranges.substr(0, ranges.find_first_of("-,"));
    const std::size_t rest = close == std::string::npos ? slurm_list.size() : close + 1;
    const std::string suffix = slurm_list.substr(rest, slurm_list.find(',', rest) - rest);
    return slurm_list.substr(0, bracket) + number + suffix;
}
}  // namespace pipescope
