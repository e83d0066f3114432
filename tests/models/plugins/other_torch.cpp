// Simulates a library built against another torch.

#include "models/user_model.h"

extern "C" const PipescopeUserModel* pipescope_model() {
    static const PipescopeUserModel model{pipescope::kUserModelAbi, "1.13.1", nullptr};
    return &model;
}
