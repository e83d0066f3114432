#include "tests/engine/skips/readers_model.h"

#include "engine/skippable.h"

#include <torch/torch.h>

#include <memory>
#include <utility>

namespace pipescope::testing_support {
SkipNames named(const std::vector<std::string>& stash, const std::vector<std::string>& pop) {
    SkipNames names;
    for (const std::string& each : stash) {
        names.stash.push_back({"", each});
    }
    for (const std::string& each : pop) {
        names.pop.push_back({"", each});
    }
    return names;
}

LayerSpec stem() {
    return {"stem", [] {
                auto linear = std::make_shared<torch::nn::LinearImpl>(6, 4);
                linear->to(torch::kFloat64);
                return skippable_layer(linear, named({"wx", "input", "positive", "largest"}, {}),
                                       [=](const Tensors& in, SkipContext& skips) {
                                           const at::Tensor wx = linear->forward(in[0]);
                                           skips.stash("wx", wx);
                                           skips.stash("input", in[0]);
                                           skips.stash("positive", in[0].narrow(1, 0, 4) > 0);
                                           skips.stash("largest", in[0].narrow(1, 0, 4).argmax(1, true));
                                           return Tensors{torch::tanh(wx)};
                                       });
            }};
}

LayerSpec reader(const std::vector<std::string>& pops) {
    return {"reader", [=] {
                auto linear = std::make_shared<torch::nn::LinearImpl>(4, 4);
                linear->to(torch::kFloat64);
                return skippable_layer(linear, named({}, pops), [=](const Tensors& in, SkipContext& skips) {
                    at::Tensor x = torch::tanh(linear->forward(in[0]));
                    for (const std::string& name : pops) {
                        const at::Tensor skip = skips.pop(name);
                        x = name == "wx"         ? x + skip * x
                            : name == "input"    ? x * skip.narrow(1, 1, 4) + 1
                            : name == "positive" ? torch::where(skip, x, x * 0.5)
                                                 : x + x.gather(1, skip);
                    }
                    return Tensors{x};
                });
            }};
}

std::vector<LayerSpec> readers_model() {
    return {stem(),
            reader({"wx"}),
            linear(4, 4),
            reader({"wx", "positive"}),
            reader({"input", "largest"}),
            reader({"wx", "input"}),
            dropout(0.2),
            reader({"positive", "wx", "largest"}),
            reader({"wx", "input"}),
            linear(4, 4)};
}
}  // namespace pipescope::testing_support
