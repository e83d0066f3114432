#pragma once

#include "gui/document/scenario.h"

#include <QString>

#include <functional>
#include <vector>

namespace pipescope {
/// A change of a scenario that people often ask about.
struct Preset {
    QString group;  ///< those of one group stand together
    QString name;
    std::function<Scenario(const Profile& profile, const Scenario& present)> change;
};

/// In the order of the menu. Rates of links are what programs reach: the published peak times three quarters (PCIe) or
/// four fifths, as the device catalogue assumes.
const std::vector<Preset>& presets();
}  // namespace pipescope
