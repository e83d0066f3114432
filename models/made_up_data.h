#pragma once

#include "engine/layer.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace pipescope {
/// Labelled samples. Each shows one of a few fixed patterns in noise; the label is the pattern's number. A classifier
/// learns them within a few steps, whatever the shape of its input.
struct LabelledSamples {
    at::Tensor input;  ///< float32, (batch, shape..)
    at::Tensor label;  ///< int64, (batch), from 0 to kinds - 1
};
/// `shape` is the shape of one sample. Deterministic for a seed; the patterns do not depend on it.
LabelledSamples labelled_samples(const std::vector<std::int64_t>& shape, std::int64_t kinds, std::int64_t batch,
                                 std::uint64_t seed);

/// One pattern per kind, (kinds, shape..), deterministic for a seed. A pattern is constant along all but its first
/// dimension (a colour, for images), so that convolution and pooling keep it. The constant dimensions have size 1, to
/// broadcast.
at::Tensor fixed_patterns(const std::vector<std::int64_t>& shape, std::int64_t kinds, std::uint64_t seed);

/// A model of these layers that learns to tell at most eight of the classes. Input: colour images (batch, 3, size,
/// size). Target: class numbers (batch).
ModelSpec image_classifier(std::vector<LayerSpec> layers, std::int64_t size, std::int64_t classes);
/// Cross entropy of scores (batch, classes) against class numbers (batch).
at::Tensor classification_loss(const Tensors& output, const Tensors& target);

/// Token numbers, int64 (batch, length). Each sample counts from a random start through a few tokens of the vocabulary,
/// repeatedly. A model learns which tokens occur within a few steps, and their order within some more.
at::Tensor counting_tokens(std::int64_t vocabulary, std::int64_t length, std::int64_t batch, std::uint64_t seed);
}  // namespace pipescope
