#pragma once

#include "profiler/recorder/recorder.h"
#include "tests/temporary_folder.h"
#include "trace/store/trace_reader.h"

#include <SQLiteCpp/SQLiteCpp.h>

#include <cstdint>
#include <functional>
#include <string>

namespace pipescope {
/// Records a function into its own trace, and queries it.
class RecordedTrace {
public:
    explicit RecordedTrace(const std::function<void(Recorder&)>& body, RecorderOptions options = {}) {
        options.path = path();
        options.devices = false;  // ranges are looked at, the same on every machine
        Recorder recorder(options);
        body(recorder);
        recorder.stop();
    }

    std::filesystem::path path() const { return folder_ / "t.sqlite"; }
    TraceReader reader() const { return TraceReader(path()); }
    std::int64_t number(const std::string& sql) const { return SQLite::Database(path()).execAndGet(sql).getInt64(); }
    std::string text(const std::string& sql) const { return SQLite::Database(path()).execAndGet(sql).getString(); }

private:
    const TemporaryFolder folder_;
};
}  // namespace pipescope
