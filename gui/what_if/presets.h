#pragma once

#include "gui/document/scenario.h"

#include <QString>

#include <functional>
#include <vector>

namespace pipescope {
/// A frequently used change of a scenario.
struct Preset {
    QString group;  ///< heading of the menu section
    QString name;
    std::function<Scenario(const Profile& profile, const Scenario& present)> change;
};

/// Presets in menu order. Link rates are realistic ones: the published peak times three quarters (PCIe) or four fifths,
/// as in the device catalogue.
const std::vector<Preset>& presets();
}  // namespace pipescope
