// libpipescope_inject.so: records the NVTX ranges of any program without rebuilding it:
//
//     NVTX_INJECTION64_PATH=/path/libpipescope_inject.so PIPESCOPE_TRACE=out.sqlite program
//
// PIPESCOPE_TRACE names the trace. %p in it becomes the process id, so each process of a program gets a separate trace.
// The default is pipescope-<process id>.sqlite in the current folder. Existing files are not overwritten. With
// PIPESCOPE_TRACE_FURTHER=1, which `pipescope record` sets, the name is used literally, and a process that finds it
// taken writes out-<process id>.sqlite, out-<process id>-2.sqlite and so on.

#include "base/printable.h"
#include "profiler/recorder/nvtx_handler.h"
#include "profiler/recorder/recorder.h"
#include "trace/store/trace_parts.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>

namespace pipescope {
namespace {
/// True under `pipescope record`: the path is what its user typed, and further processes get their own names.
bool is_under_record() {
    const char* further = std::getenv("PIPESCOPE_TRACE_FURTHER");
    return further != nullptr && *further == '1';
}

std::string trace_path() {
    const std::string pid = std::to_string(getpid());
    const char* wanted = std::getenv("PIPESCOPE_TRACE");
    if (wanted == nullptr || *wanted == '\0') {
        return "pipescope-" + pid + ".sqlite";
    }
    std::string path = wanted;
    if (is_under_record()) {
        return path;
    }
    for (std::size_t at = path.find("%p"); at != std::string::npos; at = path.find("%p", at + pid.size())) {
        path.replace(at, 2, pid);
    }
    return path;
}

constexpr int kMostPrograms = 1000;  // programs executed by one process in sequence

// Global, since NVTX calls us without context and we have no owner.
std::unique_ptr<Recorder> recorder;

/// Registered while the program runs, so it runs before older objects are destroyed.
void stop_at_exit() {
    recorder.reset();
}

/// In a program with several processes, the first process to emit a range gets the file; creating the file decides. A
/// process that executes several programs in sequence (exec) needs further names too.
std::unique_ptr<Recorder> make_recorder() {
    const std::filesystem::path path = trace_path();
    const std::string own = path.stem().string() + "-" + std::to_string(getpid());
    const auto name = [&](int k) {
        std::filesystem::path further = path;
        further.replace_filename(own + (k == 1 ? "" : "-" + std::to_string(k)) + path.extension().string());
        return k == 0 ? path : further;
    };
    for (int k = 0;; ++k) {
        try {
            return std::make_unique<Recorder>(RecorderOptions{.path = name(k)});
        } catch (const TraceError&) {
            const bool is_taken = std::filesystem::exists(name(k)) || has_database_parts(name(k));
            if (!is_under_record() || k == kMostPrograms || !is_taken) {
                throw;
            }
        }
    }
}

/// Returns false if the recorder could not be started. A program must not fail because its trace cannot be written.
bool start_recorder() {
    announce_nvtx_handler();
    try {
        recorder = make_recorder();
        return std::atexit(stop_at_exit) == 0;
    } catch (const std::exception& error) {
        std::fprintf(stderr, "pipescope: not recording: %s\n", printable(error.what()).c_str());
        return false;
    }
}

/// Starts the recorder at the first call, before NVTX gets our functions. Until then, the first ranges of other threads
/// wait in NVTX. With our functions but no recorder they would be lost.
bool recorder_runs() {
    static const bool started = start_recorder();
    return started;
}
}  // namespace
}  // namespace pipescope

/// NVTX calls this at the first range of the executable, and of each shared library with ranges.
extern "C" int InitializeInjectionNvtx2(const void* (*get_export_table)(std::uint32_t)) {
    return pipescope::recorder_runs() ? pipescope::attach_nvtx_handler(get_export_table) : 0;
}

/// The same for the payload extension, which NVTX attaches separately.
extern "C" int InitializeInjectionNvtxExtension(nvtxExtModuleInfo_t* module) {
    return pipescope::recorder_runs() ? pipescope::attach_nvtx_extension(module) : 0;
}
