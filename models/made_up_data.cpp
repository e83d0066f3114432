#include "models/made_up_data.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <algorithm>
#include <utility>

namespace pipescope {
namespace {
constexpr std::uint64_t kPatternSeed = 1;
constexpr double kNoise = 0.5;  // in standard deviations of the pattern
constexpr std::int64_t kKindsInUse = 8;
constexpr std::int64_t kTokensInUse = 16;
}  // namespace

at::Tensor fixed_patterns(const std::vector<std::int64_t>& shape, std::int64_t kinds, std::uint64_t seed) {
    std::vector<std::int64_t> sizes(shape.size() + 1, 1);
    sizes[0] = kinds;
    if (!shape.empty()) {
        sizes[1] = shape[0];
    }
    at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(seed);
    return at::randn(sizes, generator);
}

LabelledSamples labelled_samples(const std::vector<std::int64_t>& shape, std::int64_t kinds, std::int64_t batch,
                                 std::uint64_t seed) {
    const at::Tensor patterns = fixed_patterns(shape, kinds, kPatternSeed);
    std::vector<std::int64_t> batch_shape = shape;
    batch_shape.insert(batch_shape.begin(), batch);
    at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(seed);
    const at::Tensor label = at::randint(kinds, {batch}, generator, at::TensorOptions(at::kLong));
    return {patterns.index_select(0, label) + kNoise * at::randn(batch_shape, generator), label};
}

ModelSpec image_classifier(std::vector<LayerSpec> layers, std::int64_t size, std::int64_t classes) {
    ModelSpec model;
    model.layers = std::move(layers);
    model.make_batch = [size, classes](std::int64_t batch, std::uint64_t seed) {
        const LabelledSamples samples = labelled_samples({3, size, size}, std::min(classes, kKindsInUse), batch, seed);
        return Batch{{samples.input}, {samples.label}};
    };
    model.loss = &classification_loss;
    return model;
}

at::Tensor classification_loss(const Tensors& output, const Tensors& target) {
    return at::cross_entropy_loss(output.at(0), target.at(0));
}

at::Tensor counting_tokens(std::int64_t vocabulary, std::int64_t length, std::int64_t batch, std::uint64_t seed) {
    const std::int64_t used = std::min(vocabulary, kTokensInUse);
    at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(seed);
    const at::Tensor start = at::randint(used, {batch, 1}, generator, at::TensorOptions(at::kLong));
    return (start + at::arange(length, at::kLong)).remainder(used);
}
}  // namespace pipescope
