#include "python/src/core/core_module.h"

#include "balance/profile.h"
#include "python/src/core/long_call.h"
#include "python/src/python_errors.h"
#include "trace/trace_records.h"

#include <pybind11/pybind11.h>

namespace pipescope {
namespace {
void translate_more(const std::exception_ptr& thrown) {
    try {
        std::rethrow_exception(thrown);
    } catch (const ComputationStopped&) {
        LongCall::set_error_of_stop();
    } catch (const ProfileError& error) {
        set_python_error("ProfileError", error);
    } catch (const TraceFormatError& error) {
        set_python_error("TraceFormatError", error);
    } catch (const TraceError& error) {
        set_python_error("TraceError", error);
    }
}
}  // namespace
}  // namespace pipescope

PYBIND11_MODULE(_core, module) {
    module.doc() = "PipeScope without torch: profiles, answers of commands, schedules and traces.";
    module.attr("__version__") = PIPESCOPE_VERSION;
    pipescope::translate_errors(pipescope::translate_more);
    pipescope::LongCall::wait_at_exit();
    pipescope::bind_profiles(module);
    pipescope::bind_answers(module);
    pipescope::bind_traces(module);
}
