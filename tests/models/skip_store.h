#pragma once

#include "engine/layer.h"

#include <map>
#include <stdexcept>
#include <string>
#include <string_view>

namespace pipescope {
/// Stores skips while a test calls a model's layers one after the other.
class SkipStore {
public:
    Tensors forward(Layer& layer, const Tensors& inputs) {
        OfLayer context(*this, layer.skips());
        return layer.forward_with_skips(inputs, context);
    }

    bool empty() const { return tensors_.empty(); }
    std::size_t size() const { return tensors_.size(); }

private:
    class OfLayer : public SkipContext {
    public:
        OfLayer(SkipStore& store, SkipNames names) : store_(store), names_(std::move(names)) {}

        void stash(std::string_view name, at::Tensor tensor) override {
            store_.tensors_[full(names_.stash, name)] = std::move(tensor);
        }
        at::Tensor pop(std::string_view name) override {
            const auto found = store_.tensors_.find(full(names_.pop, name));
            if (found == store_.tensors_.end()) {
                throw std::logic_error("popped before it was stashed: " + std::string(name));
            }
            at::Tensor tensor = found->second;
            store_.tensors_.erase(found);
            return tensor;
        }

    private:
        static SkipName full(const std::vector<SkipName>& declared, std::string_view name) {
            for (const SkipName& each : declared) {
                if (each.name == name) {
                    return each;
                }
            }
            throw std::logic_error("not declared: " + std::string(name));
        }

        SkipStore& store_;
        SkipNames names_;
    };

    std::map<SkipName, at::Tensor> tensors_;
};
}  // namespace pipescope
