#pragma once

#include "benchmarks/paper_tables/published.h"
#include "hardware/device_catalogue.h"
#include "simulator/simulation.h"

#include <string>

namespace pipescope {
/// A published row, simulated.
struct PredictedRow {
    Simulation simulation;
    bool own_balance = false;  ///< the profile's layers differ from those of the published model, so the best balance
                               ///< was used
};
/// Simulates a row on `device`, with its link between any two lanes. Precondition: the profile's times are for that
/// device.
PredictedRow predict(const CheckedProfile& profile, const PublishedRow& row, const DeviceType& device,
                     const std::string& optimizer);

/// The same model without portals: each skip is part of the outputs of all layers in between.
Profile without_portals(const Profile& profile);

double sum_of_peaks(const Simulation& simulation);
/// Sum of the peaks without parameters, gradients and optimizer state.
double sum_of_activations(const Simulation& simulation);
}  // namespace pipescope
