#pragma once

#include "balance/device_catalogue.h"
#include "benchmarks/paper_tables/published.h"
#include "simulator/simulation.h"

#include <string>

namespace pipescope {
/// A published row run on the virtual clock.
struct PredictedRow {
    Simulation simulation;
    bool own_balance = false;  ///< the profile has other layers than the published model: the best balance was sought
};
/// On `device`, its link between any two lanes. Precondition: the profile's times are of that device.
PredictedRow predict(const Profile& profile, const PublishedRow& row, const DeviceType& device,
                     const std::string& optimizer);

/// The same model with every skip handed on in the output of all layers between, as without portals.
Profile without_portals(const Profile& profile);

double sum_of_peaks(const Simulation& simulation);
/// What is left of the peaks without parameters, gradients and optimizer state.
double sum_of_activations(const Simulation& simulation);
}  // namespace pipescope
