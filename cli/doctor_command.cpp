#include "answers/reports.h"
#include "answers/text_table.h"
#include "answers/units.h"
#include "base/error.h"
#include "base/quantities.h"
#include "cli/child_process.h"
#include "cli/commands.h"
#include "cli/inject_library.h"
#include "cli/option_flags.h"
#include "cli/program.h"
#include "cli/temporary_trace.h"
#include "hardware/cluster.h"
#include "profiler/recorder/device_capture.h"
#include "save/save_error.h"
#include "save/saved_step.h"
#include "trace/store/trace_reader.h"
#include "trace/store/trace_writer.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/prctl.h>
#include <unistd.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <initializer_list>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

namespace pipescope {
namespace {
/// One check of doctor. If `ok` is false, something is missing or degraded; `detail` explains it and gives a remedy.
/// Only essential checks make doctor fail.
struct DoctorCheck {
    std::string name;
    bool ok = false;
    std::string detail;
    bool essential = false;
};

namespace fs = std::filesystem;

DoctorCheck check_torch() {
    const auto program = torch_program();
    if (!program) {
        return {"pipescope-torch", false,
                fmt::format("not installed: models, profile, run and demo are missing; {}", kTorchRemedy)};
    }
    const ChildResult result = run_child(*program, {"--version"});
    if (result.exit_code != 0) {
        return {"pipescope-torch", false,
                fmt::format("does not start (exit code {}); LibTorch's libraries may have moved; build again",
                            result.exit_code)};
    }
    return {"pipescope-torch", true, result.first_line()};
}

/// Checks of pipescope-torch: the devices that LibTorch finds, and reasons for missing ones.
std::vector<DoctorCheck> check_devices() {
    const auto program = torch_program();
    if (!program) {
        return {};
    }
    const ChildResult result = run_child(*program, {"devices"}, {}, ChildErrors::hide);
    const auto report = nlohmann::json::parse(result.output, nullptr, /*allow_exceptions=*/false);
    if (result.exit_code != 0 || !report.is_object()) {
        return {{"lane devices", false, "pipescope-torch gives no answer; run 'pipescope-torch devices' to see why"}};
    }
    std::vector<DoctorCheck> checks;
    for (const auto& check : report.at("checks")) {
        checks.push_back({check.at("name"), check.at("ok"), check.at("detail")});
    }
    return checks;
}

DoctorCheck check_gui() {
    try {
        viewer_program();
    } catch (const Error& error) {
        return {"pipescope-gui", false, fmt::format("no viewer and no pictures: {}", error.what())};
    }
    const char* display = std::getenv("DISPLAY");
    const char* wayland = std::getenv("WAYLAND_DISPLAY");
    const bool window = (display != nullptr && *display != '\0') || (wayland != nullptr && *wayland != '\0');
    return {"pipescope-gui", true, window ? "installed" : "installed; no display, so only view --render works"};
}

DoctorCheck check_trace_store() {
    // Found at run time: only trace/ uses SQLite's header.
    const auto version = reinterpret_cast<const char* (*)()>(dlsym(RTLD_DEFAULT, "sqlite3_libversion"));
    try {
        const TemporaryTrace temporary("doctor.sqlite");
        const fs::path path = temporary.path();
        TraceWriter writer(path, IfExists::refuse);
        writer.set_lanes({{"lane 0", "cpu"}});
        writer.close();
        const bool same = TraceReader(path).lanes().size() == 1;
        return {"trace store", same,
                fmt::format("SQLite {}; a trace {}", version == nullptr ? "(built in)" : version(),
                            same ? "was written and read back" : "came back changed"),
                true};
    } catch (const std::exception& error) {
        return {"trace store", false, error.what(), true};
    }
}

DoctorCheck check_temporary_folder() {
    std::error_code error;
    const fs::path folder = fs::temp_directory_path(error);
    if (error || access(folder.c_str(), W_OK | X_OK) != 0) {
        return {"temporary folder", false, "cannot be written; set TMPDIR to a folder that can", true};
    }
    const fs::space_info space = fs::space(folder, error);
    return {
        "temporary folder", true,
        fmt::format("{}, {} free", folder.string(), error ? "?" : format_bytes(static_cast<Bytes>(space.available))),
        true};
}

DoctorCheck check_cores() {
    cpu_set_t cores;
    CPU_ZERO(&cores);
    const int count = sched_getaffinity(0, sizeof(cores), &cores) == 0 ? CPU_COUNT(&cores) : 1;
    return {"cores", count >= 2,
            count >= 2 ? fmt::format("{}; each busy CPU lane needs one", count)
                       : "1; lanes take turns on it, so measured pipelines do not overlap"};
}

DoctorCheck check_load() {
    std::array<double, 1> load{};
    const long cores = sysconf(_SC_NPROCESSORS_ONLN);
    if (getloadavg(load.data(), 1) != 1) {
        return {"load", true, "unknown"};
    }
    // Half a core of other load changes times by more than the promised accuracy.
    const bool quiet = load[0] < 0.5;
    return {"load", quiet,
            fmt::format("{:.2f} on {} cores{}", load[0], cores,
                        quiet ? "" : "; other work runs, so measured times will vary")};
}

DoctorCheck check_timer_slack() {
    const int slack = prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0);
    return {"timer slack", slack >= 0, fmt::format("{} ns; emulated layers set their own to 1 ns", slack)};
}

/// Opens the first of these libraries that the loader finds. It stays open.
void* open_first(std::initializer_list<const char*> names) {
    for (const char* name : names) {
        if (void* library = dlopen(name, RTLD_LAZY | RTLD_LOCAL)) {
            return library;
        }
    }
    return nullptr;
}

DoctorCheck check_cuda_driver() {
    void* library = open_first({"libcuda.so.1"});
    if (library == nullptr) {
        return {"cuda driver", false, "libcuda.so.1 not found: no CUDA devices, lanes run on the CPU"};
    }
    // Uses the driver's C interface, so that no CUDA header is needed: CUresult is an int, and 0 means success.
    const auto initialise = reinterpret_cast<int (*)(unsigned)>(dlsym(library, "cuInit"));
    const auto count_devices = reinterpret_cast<int (*)(int*)>(dlsym(library, "cuDeviceGetCount"));
    const auto driver_version = reinterpret_cast<int (*)(int*)>(dlsym(library, "cuDriverGetVersion"));
    if (initialise == nullptr || count_devices == nullptr || driver_version == nullptr) {
        return {"cuda driver", false, "libcuda.so.1 lacks the driver's functions; install the NVIDIA driver again"};
    }
    if (const int error = initialise(0); error != 0) {
        return {"cuda driver", false,
                fmt::format("cuInit fails with {}: no CUDA devices, lanes run on the CPU", error)};
    }
    int devices = 0;
    int version = 0;
    count_devices(&devices);
    driver_version(&version);
    return {"cuda driver", devices > 0,
            fmt::format("CUDA {}.{}, {}", version / 1000, version % 1000 / 10, counted(devices, "device", "devices"))};
}

DoctorCheck check_cupti() {
    const DeviceCaptureProbe probe = probe_device_capture();  // subscribes, to detect another tool that uses CUPTI
    return {"cupti", probe.available,
            probe.available ? probe.detail
                            : "work on CUDA devices is not recorded: " + probe.detail +
                                  (probe.driver ? "" : "; CPU lanes need none")};
}

DoctorCheck check_record() {
    const auto library = find_inject_library();
    return {"record", library.has_value(),
            library ? "libpipescope_inject.so is installed: programs not built with PipeScope can be recorded"
                    : "libpipescope_inject.so is missing: record cannot run; build or install PipeScope again"};
}

DoctorCheck check_nccl() {
    const auto library = find_own_library("libpipescope_nccl.so");
    return {"nccl", library.has_value(),
            library
                ? "libpipescope_nccl.so is installed: run --device-messages nccl can send from GPU to GPU"
                : "libpipescope_nccl.so is missing: processes send tensors through the hosts' memory; to change that, "
                  "build PipeScope after scripts/setup --cuda"};
}

DoctorCheck check_nvtx_injection() {
    const char* library = std::getenv("NVTX_INJECTION64_PATH");
    if (library == nullptr || *library == '\0') {
        return {"nvtx injection", true, "NVTX_INJECTION64_PATH is not set; run records by itself"};
    }
    const bool exists = fs::exists(library);
    return {"nvtx injection", exists,
            fmt::format("NVTX_INJECTION64_PATH is {}{}", library,
                        exists ? "; that tool gets all ranges, so run and record have none; unset it to record here"
                               : ", which does not exist; unset it")};
}
/// Checks this machine: programs, SQLite, cores, timers, accelerator libraries. Takes up to a second, because it starts
/// pipescope-torch.
std::vector<DoctorCheck> examine_machine() {
    std::vector<DoctorCheck> checks = {check_torch(), check_gui(),  check_trace_store(), check_temporary_folder(),
                                       check_cores(), check_load(), check_timer_slack(), check_cuda_driver(),
                                       check_cupti(), check_nccl(), check_record(),      check_nvtx_injection()};
    const std::vector<DoctorCheck> devices = check_devices();
    checks.insert(checks.begin() + 1, devices.begin(), devices.end());
    return checks;
}

struct DoctorFlags {
    std::string cluster;  ///< file; empty: this machine
    std::string device_catalogue;
    std::string save;  ///< folder of saved steps, or one saved step
    bool json = false;
};

DoctorCheck check_save(const fs::path& step) {
    const SavedStepCheck check = check_saved_step(step);
    const std::string name = step.filename().string();
    if (!check.fault.empty()) {
        return {name, false, check.fault, true};
    }
    const std::string content = fmt::format("{}, {}", counted(check.tensors, "tensor", "tensors"),
                                            format_bytes(static_cast<Bytes>(check.bytes)));
    return {name, check.has_checksums,
            check.has_checksums
                ? content + "; every checksum is right"
                : content +
                      "; readable, but an earlier version saved it without checksums, so damage inside its "
                      "tensors cannot be found; the next save has some"};
}

/// Reads every saved step in the folder, or the named step.
std::vector<DoctorCheck> examine_saves(const fs::path& folder) {
    std::vector<fs::path> steps = saved_steps(folder);
    if (steps.empty() && fs::exists(folder / kTrainingFile)) {
        steps.push_back(fs::canonical(folder));  // resolves the name, also of "."
    }
    if (steps.empty()) {
        throw SaveError(
            fmt::format("{} holds no saved step; a saved step is a folder such as step-000100; name the "
                        "folder that --save of run was given",
                        folder.string()));
    }
    std::vector<DoctorCheck> checks;
    checks.reserve(steps.size());
    for (const fs::path& step : steps) {
        checks.push_back(check_save(step));
    }
    return checks;
}

std::string link_figures(const Link& link) {
    constexpr double kLarge = 64 << 20;
    return fmt::format("{:.1f} us, {:.1f} GB/s for 64 MiB", link.message_ns(0) / 1e3, kLarge / link.message_ns(kLarge));
}

DoctorCheck check_group(const Cluster& cluster, const NodeGroup& group) {
    std::string detail = fmt::format("{} of {} {}, {} of memory each; inside a node {}",
                                     counted(group.nodes, "node", "nodes"), group.devices_per_node, group.device.name,
                                     format_bytes(group.device.memory_bytes), link_figures(group.link));
    if (group.nodes > 1) {
        detail += fmt::format("; between nodes, a device's share of {}: {}",
                              counted(group.ports_per_node, "port", "ports"), link_figures(node_link(cluster, group)));
    }
    if (cluster.racks) {
        detail += fmt::format("; between racks of {}: {}", counted(cluster.racks->nodes, "node", "nodes"),
                              link_figures(rack_link(cluster, group)));
    }
    return {group.device.name, true, detail};
}

/// Reports values that a plan needs but the file lacks, and links that are slower than links to more distant devices.
std::vector<DoctorCheck> examine_cluster(const DoctorFlags& flags) {
    const Cluster cluster =
        load_cluster(flags.cluster, flags.device_catalogue.empty() ? device_catalogue()
                                                                   : load_device_catalogue(flags.device_catalogue));
    constexpr double kLarge = 64 << 20;
    std::vector<DoctorCheck> checks;
    std::int64_t devices = 0;
    for (const NodeGroup& group : cluster.groups) {
        devices += group.devices();
    }
    checks.push_back({"cluster", true, cluster.name + ": " + counted(devices, "device", "devices"), true});
    if (cluster.racks) {
        std::int64_t nodes = 0;
        for (const NodeGroup& group : cluster.groups) {
            nodes += group.nodes;
        }
        const bool faster =
            nodes > 1 && cluster.racks->link.message_ns(kLarge) < cluster.between_nodes.message_ns(kLarge);
        if (faster || cluster.racks->nodes >= nodes) {
            checks.push_back(
                {"racks", false,
                 faster ? "the link between racks is faster than the one between nodes; correct one of the two"
                        : fmt::format("a rack holds all {}, so nothing passes between racks",
                                      counted(nodes, "node", "nodes"))});
        }
    }
    for (const NodeGroup& group : cluster.groups) {
        const std::string& name = group.device.name;
        checks.push_back(check_group(cluster, group));
        checks.push_back({name + " price", group.price_per_hour > 0,
                          group.price_per_hour > 0
                              ? fmt::format("{} per node and hour", group.price_per_hour)
                              : "unknown: the cost of a run cannot be computed; add price_per_hour"});
        checks.push_back({name + " failures", group.hours_between_failures > 0,
                          group.hours_between_failures > 0
                              ? fmt::format("a node fails every {} h; one of them every {:.1f} h",
                                            group.hours_between_failures, group.hours_between_failures / group.nodes)
                              : "unknown: plans assume that nothing fails; add hours_between_failures"});
        const bool slow_inside =
            group.nodes > 1 && group.link.message_ns(kLarge) > node_link(cluster, group).message_ns(kLarge);
        if (group.link.is_free() || slow_inside) {
            checks.push_back({name + " link", false,
                              group.link.is_free()
                                  ? "the catalogue knows no link inside a node, so it is free; add link"
                                  : "a node's own link is slower than that to other nodes; check both"});
        }
    }
    return checks;
}

ExitCode doctor_command(const DoctorFlags& flags) {
    const bool json = flags.json;
    const std::vector<DoctorCheck> checks = !flags.save.empty()      ? examine_saves(flags.save)
                                            : !flags.cluster.empty() ? examine_cluster(flags)
                                                                     : examine_machine();
    if (json) {
        nlohmann::ordered_json list = nlohmann::ordered_json::array();
        for (const DoctorCheck& check : checks) {
            list.push_back({{"name", check.name}, {"ok", check.ok}, {"detail", check.detail}});
        }
        std::cout << dump({{"checks", std::move(list)}});
    } else {
        TextTable table({{"check", Align::left}, {"", Align::left}, {"detail", Align::left}});
        for (const DoctorCheck& check : checks) {
            table.add_row({check.name, check.ok ? "ok" : check.essential ? "FAILS" : "note", check.detail});
        }
        std::cout << table.str();
    }
    const bool works =
        std::ranges::all_of(checks, [](const DoctorCheck& check) { return check.ok || !check.essential; });
    return works ? ExitCode::success : ExitCode::failure;
}
}  // namespace

void add_doctor_command(Program& program) {
    const auto flags = std::make_shared<DoctorFlags>();
    CLI::App* command = program.add_command(
        "doctor", "Show what is installed, what is missing, and how to fix it",
        "Example:\n"
        "  pipescope doctor\n"
        "  pipescope doctor --cluster dgx-a100\n"
        "  pipescope doctor --save saves\n"
        "A 'note' is something optional that is missing. The exit code is 1 only if something essential fails.");
    add_option(*command, "--cluster", flags->cluster,
               "Check this cluster file, or built-in cluster, instead of the machine (docs/cluster-format.md)", "FILE");
    add_option(*command, "--device-catalogue", flags->device_catalogue,
               "With --cluster: the catalogue of its devices; default: the built-in one", "FILE");
    add_option(*command, "--save", flags->save,
               "Read every saved step in this folder, or this one, and compare its checksums "
               "(docs/saved-trainings.md)",
               "DIR");
    add_json_flag(*command, flags->json);
    program.set_action(command, [flags] {
        if (!flags->save.empty() && !flags->cluster.empty()) {
            throw UsageError("--save and --cluster are both given; doctor examines one of them; leave one out");
        }
        if (flags->cluster.empty() && !flags->device_catalogue.empty()) {
            throw UsageError(
                "--device-catalogue is given without --cluster; it describes a cluster's devices; name one");
        }
        return doctor_command(*flags);
    });
}
}  // namespace pipescope
