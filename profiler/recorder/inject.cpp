// libpipescope_inject.so: records the NVTX ranges of any program, without building it anew:
//
//     NVTX_INJECTION64_PATH=/path/libpipescope_inject.so PIPESCOPE_TRACE=out.sqlite program
//
// PIPESCOPE_TRACE names the trace; %p in it becomes the process id, so that a program of several processes gets a trace
// for each. Without it: pipescope-<process id>.sqlite in the current folder. A file that exists is not overwritten;
// with PIPESCOPE_TRACE_FURTHER=1, as `pipescope record` sets it, a process that finds it taken writes out-<process
// id>.sqlite. Other than the handler linked into a program, this one also hears shared libraries, such as libtorch.

#include "profiler/recorder/nvtx_handler.h"
#include "profiler/recorder/recorder.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>

namespace pipescope {
namespace {
std::string trace_path() {
    const std::string pid = std::to_string(getpid());
    const char* wanted = std::getenv("PIPESCOPE_TRACE");
    if (wanted == nullptr || *wanted == '\0') {
        return "pipescope-" + pid + ".sqlite";
    }
    std::string path = wanted;
    for (std::size_t at = path.find("%p"); at != std::string::npos; at = path.find("%p", at + pid.size())) {
        path.replace(at, 2, pid);
    }
    return path;
}

// A global, since NVTX calls us without context and nobody owns us.
std::unique_ptr<Recorder> recorder;

/// Registered while the program runs, so it comes before the destruction of what existed earlier.
void stop_at_exit() {
    recorder.reset();
}

/// Where a program has several processes the first one to emit a range gets the file; creating it decides who is.
std::unique_ptr<Recorder> make_recorder() {
    const std::filesystem::path path = trace_path();
    const char* further = std::getenv("PIPESCOPE_TRACE_FURTHER");
    if (further == nullptr || *further != '1') {
        return std::make_unique<Recorder>(RecorderOptions{.path = path});
    }
    try {
        return std::make_unique<Recorder>(RecorderOptions{.path = path});
    } catch (const TraceError&) {
        if (!std::filesystem::exists(path)) {
            throw;
        }
    }
    std::filesystem::path own = path;
    own.replace_filename(path.stem().string() + "-" + std::to_string(getpid()) + path.extension().string());
    return std::make_unique<Recorder>(RecorderOptions{.path = own});
}

/// Whether it could be started. A program must not fail because its trace cannot be written.
bool start_recorder() {
    try {
        recorder = make_recorder();
        return std::atexit(stop_at_exit) == 0;
    } catch (const std::exception& error) {
        std::fprintf(stderr, "pipescope: not recording: %s\n", error.what());
        return false;
    }
}
}  // namespace
}  // namespace pipescope

/// NVTX calls it once for the executable and once for each shared library with ranges, at the first range of each.
extern "C" __attribute__((visibility("default"))) int InitializeInjectionNvtx2(
    const void* (*get_export_table)(std::uint32_t)) {
    if (pipescope::attach_nvtx_handler(get_export_table) == 0) {
        return 0;
    }
    static const bool started = pipescope::start_recorder();
    return started ? 1 : 0;
}

/// The same for the payload extension, which NVTX attaches apart from the rest.
extern "C" __attribute__((visibility("default"))) int InitializeInjectionNvtxExtension(nvtxExtModuleInfo_t* module) {
    return pipescope::attach_nvtx_extension(module);
}
