#include "simulator/model_error.h"

#include "base/printable.h"
#include "base/quantities.h"

#include <cmath>

namespace pipescope {
namespace {
std::string percent_of(double share) {
    return shortest(std::round(1000 * share) / 10) + " %";
}
}  // namespace

std::string model_error_text(const ModelError& error) {
    const std::string spread = error.standard_error ? ", standard error " + percent_of(*error.standard_error)
                                                    : ", so that the spread of steps is unknown";
    return "the simulation of this run is " + percent_of(std::abs(error.error)) +
           (error.error < 0 ? " below" : " above") + " its mean measured step (" +
           counted(error.steps, "step", "steps") + spread + "); a change of less than " +
           percent_of(error.least_change()) + " cannot be told apart from that error";
}
}  // namespace pipescope
