#include "simulator/model_error.h"

#include "base/quantities.h"
#include "base/short_percent.h"

#include <cmath>

namespace pipescope {
std::string model_error_text(const ModelError& error) {
    const std::string spread = error.standard_error ? ", standard error " + short_percent(*error.standard_error)
                                                    : ", so that the spread of steps is unknown";
    return "the simulation of this run is " + short_percent(std::abs(error.error)) +
           (error.error < 0 ? " below" : " above") + " its mean measured step (" +
           counted(error.steps, "step", "steps") + spread + "); a change of less than " +
           short_percent(error.least_change()) + " cannot be told apart from that error";
}
std::string saving_text(double change, const std::optional<ModelError>& error) {
    if (!error) {
        return "would save " + short_percent(-change) + " of the step (no run checked this model)";
    }
    const std::string off = "the model was " + short_percent(std::abs(error->error)) + " off on this run";
    if (error->hides(change)) {
        return "may save nothing: " + short_percent(-change) + " are predicted, but " + off + ", so changes below " +
               short_percent(error->least_change()) + " are not certain";
    }
    const ModelError::Range range = error->range_of(change);
    const std::string least = short_percent(-range.most);
    const std::string most = short_percent(-range.least);
    return "would save " + (least == most ? least : least.substr(0, least.size() - 2) + " to " + most) +
           " of the step (" + off + ")";
}
}  // namespace pipescope
