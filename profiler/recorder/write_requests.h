#pragma once

#include "profiler/recorder/range_sink.h"
#include "trace/store/trace_writer.h"

#include <functional>
#include <mutex>
#include <utility>
#include <vector>

namespace pipescope {
/// Data that the program wants written beside its ranges, in the order of the calls. Exception: a step's row follows
/// the step's ranges. Threading: any thread.
class WriteRequests {
public:
    using Request = std::function<void(TraceWriter&, RangeSink&)>;

    void add(Request request) {
        const std::scoped_lock lock(mutex_);
        others_.push_back(std::move(request));
    }
    void add(const MemorySample& sample) {
        const std::scoped_lock lock(mutex_);
        memory_.push_back(sample);
    }
    void add(const StepRecord& step) {
        const std::scoped_lock lock(mutex_);
        steps_.push_back(step);
    }
    std::vector<StepRecord> take_steps() {
        const std::scoped_lock lock(mutex_);
        return std::exchange(steps_, {});
    }
    void write(TraceWriter& writer, RangeSink& sink) {
        std::vector<Request> others;
        std::vector<MemorySample> memory;
        {
            const std::scoped_lock lock(mutex_);
            others = std::exchange(others_, {});
            memory = std::exchange(memory_, {});
        }
        for (const Request& request : others) {
            request(writer, sink);
        }
        for (const MemorySample& sample : memory) {
            writer.add_memory(sample);
        }
    }

private:
    std::mutex mutex_;
    std::vector<Request> others_;
    std::vector<MemorySample> memory_;
    std::vector<StepRecord> steps_;
};
}  // namespace pipescope
