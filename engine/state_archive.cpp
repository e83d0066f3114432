#include "engine/state_archive.h"

#include "engine/engine_error.h"

#include <ATen/core/grad_mode.h>
#include <torch/serialize/input-archive.h>
#include <torch/serialize/output-archive.h>

#include <map>
#include <sstream>
#include <string>

namespace pipescope {
namespace {
using torch::serialize::InputArchive;
using torch::serialize::OutputArchive;

/// The tensors of one archive: its own, and those of nested archives.
struct Node {
    struct Leaf {
        at::Tensor tensor;
        bool is_buffer;
    };
    std::map<std::string, Leaf> tensors;
    std::map<std::string, Node> children;

    void add(const std::string& name, const at::Tensor& tensor, bool is_buffer) {
        const std::size_t dot = name.find('.');
        if (dot == std::string::npos) {
            tensors[name] = {tensor, is_buffer};
        } else {
            children[name.substr(0, dot)].add(name.substr(dot + 1), tensor, is_buffer);
        }
    }

    void write(OutputArchive& archive) const {
        for (const auto& [name, leaf] : tensors) {
            archive.write(name, leaf.tensor, leaf.is_buffer);
        }
        for (const auto& [name, child] : children) {
            OutputArchive inner(archive.compilation_unit());
            child.write(inner);
            archive.write(name, inner);
        }
    }
};

bool read_tensor(InputArchive& archive, const std::string& name, at::Tensor& tensor) {
    const std::size_t dot = name.find('.');
    if (dot == std::string::npos) {
        return archive.try_read(name, tensor);
    }
    InputArchive inner;
    return archive.try_read(name.substr(0, dot), inner) && read_tensor(inner, name.substr(dot + 1), tensor);
}

std::string shape_of(const at::Tensor& tensor) {
    std::ostringstream text;
    text << tensor.sizes();
    return text.str();
}
}  // namespace

void write_tensors(OutputArchive& archive, const NamedTensors& parameters, const NamedTensors& buffers) {
    Node root;
    for (const auto& [name, tensor] : parameters) {
        root.add(name, tensor, false);
    }
    for (const auto& [name, tensor] : buffers) {
        root.add(name, tensor, true);
    }
    root.write(archive);
}

NamedTensors read_tensors(InputArchive& archive, const NamedTensors& like) {
    NamedTensors read;
    for (const auto& [name, tensor] : like) {
        at::Tensor value;
        if (!read_tensor(archive, name, value)) {
            throw EngineError("the file holds no " + name +
                              "; a model loads what a model of the same layers saved; build the layers it was saved "
                              "from");
        }
        read.emplace_back(name, std::move(value));
    }
    return read;
}

void copy_into(const NamedTensors& tensors, const NamedTensors& values) {
    std::map<std::string, at::Tensor> by_name(values.begin(), values.end());
    for (const auto& [name, tensor] : tensors) {
        const auto value = by_name.find(name);
        if (value == by_name.end()) {
            throw EngineError("the state holds no " + name +
                              "; every parameter and buffer is loaded; take the state of a model of the same layers");
        }
        if (value->second.sizes() != tensor.sizes()) {
            throw EngineError(name + " has shape " + shape_of(value->second) + " in the state and " + shape_of(tensor) +
                              " in the model; they must be the same; build the layers the state was taken from");
        }
    }
    if (by_name.size() != tensors.size()) {
        for (const auto& [name, tensor] : tensors) {
            by_name.erase(name);
        }
        throw EngineError("the state holds " + by_name.begin()->first +
                          ", which the model does not; take the state of a model of the same layers");
    }
    const at::NoGradGuard no_grad;
    for (const auto& [name, tensor] : tensors) {
        at::Tensor(tensor).copy_(by_name.at(name));
    }
}

void Layer::save(OutputArchive& archive) const {
    write_tensors(archive, parameters(), buffers());
}
}  // namespace pipescope
