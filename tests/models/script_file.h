#pragma once

#include <gtest/gtest.h>
#include <torch/script.h>

#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace pipescope {
inline constexpr const char* kSequential = "__torch__.torch.nn.modules.container.Sequential";

inline at::Tensor trainable(const at::Tensor& tensor) {
    return tensor.detach().requires_grad_();
}

/// Writes modules like torch.jit.script: children "0", "1", .. and a forward that calls them in sequence.
class ScriptFile {
public:
    explicit ScriptFile(const std::string& name)
        : path_(std::filesystem::path(testing::TempDir()) / (name + ".pt")),
          unit_(std::make_shared<torch::jit::CompilationUnit>()),
          root_(c10::QualifiedName(kSequential), unit_) {
        torch::manual_seed(0);
    }

    torch::jit::Module child(const std::string& forward) {
        torch::jit::Module module(c10::QualifiedName("__torch__.Child" + std::to_string(children_)), unit_);
        module.register_attribute("training", c10::BoolType::get(), true);
        forwards_.emplace_back(module, forward);
        add(module);
        return module;
    }
    void linear(std::int64_t input, std::int64_t output) {
        torch::jit::Module module = child("torch.linear(x, self.weight, self.bias)");
        module.register_parameter("weight", trainable(torch::randn({output, input}) / 4), false);
        module.register_parameter("bias", trainable(torch::zeros({output})), false);
    }
    void add(const torch::jit::Module& module) { root_.register_module(std::to_string(children_++), module); }
    torch::jit::Module& root() { return root_; }

    /// Writes the file and returns its MODEL text without options.
    std::string write() {
        std::string body = "def forward(self, x):\n";
        for (int i = 0; i < children_; ++i) {
            body += "  x = getattr(self, \"" + std::to_string(i) + "\").forward(x)\n";
        }
        return write(body + "  return x\n");
    }
    std::string write(const std::string& forward) {
        for (auto& [module, expression] : forwards_) {
            module.define("def forward(self, x):\n  return " + expression + "\n");
        }
        root_.define(forward);
        root_.save(path_.string());
        return path_.string();
    }

private:
    std::filesystem::path path_;
    std::shared_ptr<torch::jit::CompilationUnit> unit_;
    torch::jit::Module root_;
    int children_ = 0;
    std::vector<std::pair<torch::jit::Module, std::string>> forwards_;
};
}  // namespace pipescope
