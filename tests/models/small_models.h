#pragma once

#include <string>
#include <vector>

namespace pipescope {
/// Every model of the zoo, small enough for steps of milliseconds.
inline const std::vector<std::string> kSmallModels = {
    "mlp:layers=3,width=16", "transformer:layers=2,width=16,heads=2,sequence=8,vocabulary=20", "unet:B=1,C=4,size=64",
    "amoebanetd:L=3,D=8,size=64,classes=4", "resnet101:width=2,size=64,classes=4"};
}  // namespace pipescope
