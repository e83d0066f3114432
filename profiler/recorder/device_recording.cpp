#include "profiler/recorder/device_recording.h"

#include "base/quantities.h"
#include "profiler/recorder/recording_clock.h"
#include "trace/store/device_work.h"

#include <fmt/format.h>

namespace pipescope {
namespace {
/// A flush of CUPTI is more expensive than a flush of our rings.
constexpr std::int64_t kWritePeriodNs = 200'000'000;
}  // namespace

DeviceRecording::DeviceRecording(TraceWriter& writer, const DeviceCaptureOptions& options)
    : writer_(writer), pid_(options.pid) {
    DeviceCapture::Outcome outcome = DeviceCapture::start(options);
    capture_ = std::move(outcome.capture);
    if (capture_) {
        rows_.emplace(writer_, pid_);
        if (!outcome.reason.empty()) {
            writer_.add_diagnostic({"warning", "cupti", outcome.reason});
        }
    } else {
        // Without a device, nothing is lost.
        writer_.add_diagnostic({outcome.device_present ? "warning" : "info", "cupti",
                                "off, work on CUDA devices is not recorded: " + outcome.reason});
    }
}

void DeviceRecording::write_when_due(std::int64_t now) {
    if (capture_ && now >= next_write_) {
        next_write_ = now + kWritePeriodNs;
        capture_->write(*rows_, read_clocks());
        const DeviceCaptureCounts counts = capture_->counts();
        if (counts.dropped != dropped_written_) {
            write_loss(counts);  // immediately, so that a killed run's trace has it too
        }
    }
}

void DeviceRecording::finish() {
    if (!capture_) {
        return;
    }
    capture_->finish(*rows_, read_clocks());
    const DeviceCaptureCounts counts = capture_->counts();
    capture_.reset();  // releases CUPTI
    rows_.reset();
    write_loss(counts);
    if (counts.dropped > 0) {
        writer_.add_diagnostic(
            {"warning", "cupti",
             fmt::format("{} lost for lack of buffers; kernels, copies and calls are missing, and device times of "
                         "tasks are too small",
                         counted(counts.dropped, "record of CUDA devices was", "records of CUDA devices were"))});
    }
    if (counts.incomplete > 0) {
        writer_.add_diagnostic({"warning", "cupti",
                                fmt::format("{} without times and without a row: device times and gaps of their tasks "
                                            "are too small",
                                            counted(counts.incomplete, "kernel or copy is", "kernels or copies are"))});
    }
    if (counts.unknown > 0) {
        writer_.add_diagnostic({"info", "cupti",
                                fmt::format("{} left out, of kinds that this version does not know; update PipeScope",
                                            counted(counts.unknown, "record was", "records were"))});
    }
    if (!counts.fault.empty()) {
        writer_.add_diagnostic({"warning", "cupti", counts.fault});
    }
    writer_.add_overhead({"cupti", "records", counts.records});
    writer_.add_overhead({"cupti", "most_buffers", static_cast<std::int64_t>(counts.most_buffers)});
    write_tasks();
}

void DeviceRecording::write_loss(const DeviceCaptureCounts& counts) {
    writer_.add_drop({"cupti", pid_ << 24, counts.records, counts.dropped, 0, counts.incomplete});
    dropped_written_ = counts.dropped;
}

void DeviceRecording::write_tasks() {
    DeviceWorkCounts work;
    writer_.change([&](SQLite::Database& db) { work = attribute_device_work(db); });
    writer_.add_overhead({"cupti", "work_of_tasks", work.attributed});
    writer_.add_overhead({"cupti", "work_of_no_task", work.unattributed});
    if (work.early > 0) {
        writer_.add_diagnostic(
            {"warning", "cupti",
             fmt::format("{} before launch, by up to {} ns: the clocks of host and device disagree by that much at "
                         "least",
                         counted(work.early, "kernel or copy begins", "kernels or copies begin"), work.most_early_ns)});
    }
}
}  // namespace pipescope
