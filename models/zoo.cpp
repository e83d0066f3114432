#include "models/zoo.h"

#include "base/error.h"
#include "base/printable.h"
#include "models/model_files.h"
#include "models/model_options.h"
#include "models/zoo_models.h"
#include "profiler/profile/profile_file.h"

#include <algorithm>
#include <string_view>

namespace pipescope {
namespace {
struct ZooModel {
    std::string name;
    std::string description;
    std::vector<ModelOption> options;
    ModelSpec (*make)(const ModelOptions& options);
};

ModelSpec make_mlp(const ModelOptions& options) {
    return mlp({.layers = options.whole("layers"), .width = options.whole("width")});
}

ModelSpec make_transformer(const ModelOptions& options) {
    const std::int64_t width = options.whole("width");
    const std::int64_t heads = options.whole("heads");
    if (width % heads != 0) {
        throw UsageError("heads=" + std::to_string(heads) +
                         " of transformer does not divide width=" + std::to_string(width) +
                         "; every head has the same width; choose a width that is a multiple of heads");
    }
    return transformer({.layers = options.whole("layers"),
                        .width = width,
                        .heads = heads,
                        .sequence = options.whole("sequence"),
                        .vocabulary = options.whole("vocabulary"),
                        .dropout = options.fraction("dropout")});
}

ModelSpec make_unet(const ModelOptions& options) {
    return unet({.blocks = options.whole("B"), .channels = options.whole("C"), .size = options.whole("size")});
}

std::int64_t multiple_of(const ModelOptions& options, const std::string& name, std::int64_t divisor) {
    const std::int64_t value = options.whole(name);
    if (value % divisor != 0) {
        throw UsageError(name + "=" + std::to_string(value) + " of " + options.model() + " is not a multiple of " +
                         std::to_string(divisor) + "; the network halves and divides it; try " + name + "=" +
                         std::to_string((value / divisor + 1) * divisor));
    }
    return value;
}

ModelSpec make_amoebanet(const ModelOptions& options) {
    return amoebanet({.layers = multiple_of(options, "L", 3),
                      .filters = multiple_of(options, "D", 8),
                      .size = multiple_of(options, "size", 32),
                      .classes = options.whole("classes")});
}

ModelSpec make_resnet101(const ModelOptions& options) {
    return resnet101(
        {.width = options.whole("width"), .size = options.whole("size"), .classes = options.whole("classes")});
}

const std::vector<ZooModel>& zoo_models() {
    static const std::vector<ZooModel> models = {
        {"mlp",
         "linear layers with ReLU between them; learns a linear map",
         {{.name = "layers", .value = 8, .meaning = "linear layers"},
          {.name = "width", .value = 256, .meaning = "features of every layer"}},
         &make_mlp},
        {"transformer",
         "decoder-only language model, pre-norm; an embedding layer, the blocks, a head layer",
         {{.name = "layers", .value = 6, .meaning = "blocks; the model has two layers more"},
          {.name = "width", .value = 256, .meaning = "features of a token"},
          {.name = "heads", .value = 4, .meaning = "attention heads; divides the width"},
          {.name = "sequence", .value = 128, .meaning = "tokens of a sample"},
          {.name = "vocabulary", .value = 1000, .lowest = 2, .meaning = "different tokens"},
          {.name = "dropout",
           .value = 0.1,
           .lowest = 0,
           .highest = 0.9,
           .meaning = "share of values dropped",
           .kind = ModelOption::Kind::fraction}},
         &make_transformer},
        {"unet",
         "the U-Net of torchgpipe's benchmarks, flattened to 44 B + 21 layers",
         {{.name = "B", .value = 5, .highest = 1000, .meaning = "convolution blocks per cell"},
          {.name = "C", .value = 64, .lowest = 2, .highest = 10'000, .meaning = "channels of the outermost cell"},
          {.name = "size", .value = 192, .lowest = 64, .highest = 10'000, .meaning = "side of the square input image"}},
         &make_unet},
        {"amoebanetd",
         "AmoebaNet-D of torchgpipe's benchmarks, L + 6 layers with pairs of tensors between them",
         {{.name = "L", .value = 18, .lowest = 3, .highest = 3000, .meaning = "normal cells; a multiple of 3"},
          {.name = "D", .value = 256, .lowest = 8, .highest = 100'000, .meaning = "filters; a multiple of 8"},
          {.name = "size",
           .value = 224,
           .lowest = 64,
           .highest = 10'016,
           .meaning = "side of the square input image; a multiple of 32"},
          {.name = "classes", .value = 1000, .lowest = 2, .meaning = "kinds of images"}},
         &make_amoebanet},
        {"resnet101",
         "ResNet-101 of torchgpipe's benchmarks, flattened to 370 layers with 33 skips",
         {{.name = "width", .value = 64, .highest = 10'000, .meaning = "channels of the first convolution"},
          {.name = "size", .value = 224, .lowest = 64, .highest = 10'000, .meaning = "side of the square input image"},
          {.name = "classes", .value = 1000, .lowest = 2, .meaning = "kinds of images"}},
         &make_resnet101},
    };
    return models;
}

std::string names() {
    return joined_text(zoo_models(), ", ", &ZooModel::name);
}

ModelSpec unnamed_model(std::string_view text) {
    if (text.starts_with(kEmulatedPrefix)) {
        return emulated_model(load_profile(std::string(text.substr(kEmulatedPrefix.size()))));
    }
    if (const auto library = model_file(text, ".so")) {
        return plugin_model(*library);
    }
    if (const auto script = model_file(text, ".pt")) {
        return script_model(*script);
    }
    for (const char* suffix : {".pt2", ".pth", ".onnx", ".safetensors"}) {
        if (const auto file = model_file(text, suffix)) {
            throw UsageError("model '" + file->path + "' ends in " + suffix +
                             "; a model's file is TorchScript (.pt) or a shared library (.so); write one by "
                             "torch.jit.script(model).save('net.pt')");
        }
    }
    if (python_function(text)) {
        throw UsageError("model '" + std::string(text) +
                         "' is a function in Python, which 'pipescope models', 'profile' and 'run' take, and nothing "
                         "else; name a built-in model, or a file that ends in .so or .pt");
    }
    const std::size_t colon = text.find(':');
    const std::string_view name = text.substr(0, colon);
    const auto& models = zoo_models();
    const auto found =
        std::find_if(models.begin(), models.end(), [&](const ZooModel& each) { return each.name == name; });
    if (found == models.end()) {
        throw UsageError("model '" + std::string(name) + "' is not known; the models are " + names() +
                         ", emulated:PROFILE.json, files ending in .so or .pt, and functions in Python "
                         "(model.py:make); run 'pipescope models' for their options");
    }
    const std::string_view given = colon == std::string_view::npos ? std::string_view{} : text.substr(colon + 1);
    return found->make(ModelOptions(found->name, found->options, given));
}
}  // namespace

std::vector<ZooEntry> zoo() {
    std::vector<ZooEntry> entries;
    for (const ZooModel& model : zoo_models()) {
        ZooEntry entry{model.name, model.description, {}};
        for (const ModelOption& option : model.options) {
            entry.options.emplace_back(option.name, number_text(option.value) + "  " + option.meaning);
        }
        entries.push_back(std::move(entry));
    }
    return entries;
}

ModelSpec make_model(const std::string& model) {
    ModelSpec spec = unnamed_model(model);
    spec.name = model;
    return spec;
}
}  // namespace pipescope
