#include "engine/cores/usable_cores.h"
#include "profiler/recorder/load_meter.h"
#include "profiler/recorder/recorder.h"
#include "python/src/engine/python_model.h"
#include "trace/store/pipeline_json.h"

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace pipescope::python {
namespace {
/// A trace that is being recorded. Its times are ns since its start.
class PythonRecording {
public:
    PythonRecording(const std::string& path, bool force)
        : recorder_(RecorderOptions{.path = path, .if_exists = force ? IfExists::replace : IfExists::refuse}) {}

    std::int64_t now() const { return recorder_.now().count(); }

    /// `run`: JSON by key, as PIPESCOPE_RUN has it. `profile`: JSON, or empty.
    void describe(PythonModel& model, std::int64_t batch, const std::map<std::string, std::string>& run,
                  const std::string& profile) {
        std::vector<LaneInfo> lanes;
        for (const std::string& device : model.model().devices()) {
            lanes.push_back({"lane " + std::to_string(lanes.size()), device});
        }
        const std::shared_ptr<const TaskGraph> graph = model.model().task_graph(batch);
        recorder_.set_pipeline(lanes, graph->shape());
        recorder_.set_run("pipeline", pipeline_json(*graph));
        for (const auto& [key, json] : run) {
            recorder_.set_run(key, json);
        }
        if (!profile.empty()) {
            recorder_.set_profile(profile);
        }
    }

    /// The step's own bounds are those of its tasks, as the model timed them.
    void add_step(PythonModel& model, std::int32_t step, std::int64_t wall_start, std::int64_t wall_end, double loss,
                  bool warmup, std::int64_t samples) {
        const StepTimer::Bounds bounds = model.take_step(step);
        const Nanoseconds origin{recorder_.origin_ns()};
        StepRecord record;
        record.step = step;
        record.wall_start = Nanoseconds{wall_start};
        record.wall_end = Nanoseconds{wall_end};
        record.start = bounds.start ? *bounds.start - origin : record.wall_start;
        record.end = bounds.end ? *bounds.end - origin : record.wall_end;
        record.training_loss = loss;
        record.warmup = warmup;
        record.samples = samples;
        record.load = load_.end_step(record.wall_end);
        recorder_.add_step(record);
    }
    void stop() { recorder_.stop(); }

private:
    Recorder recorder_;
    StepLoadMeter load_{usable_core_numbers()};
};
}  // namespace

void bind_recording(py::module_& module) {
    using NoGil = py::call_guard<WithoutGil>;
    py::class_<PythonRecording>(module, "Recording")
        .def(py::init<const std::string&, bool>(), NoGil())
        .def("now", &PythonRecording::now)
        .def("describe", &PythonRecording::describe, NoGil())
        .def("add_step", &PythonRecording::add_step, NoGil())
        .def("stop", &PythonRecording::stop, NoGil());
}
}  // namespace pipescope::python
