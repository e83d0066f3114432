#pragma once

#include "engine/layer.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace pipescope {
/// Samples that each show one of a few fixed patterns in noise, and which one: data that a classifier learns within a
/// few steps, whatever its input looks like.
struct LabelledSamples {
    at::Tensor input;  ///< float32, (batch, shape..)
    at::Tensor label;  ///< int64, (batch), from 0 to kinds - 1
};
/// `shape` is one sample's. The same for the same seed; the patterns do not depend on it.
LabelledSamples labelled_samples(const std::vector<std::int64_t>& shape, std::int64_t kinds, std::int64_t batch,
                                 std::uint64_t seed);

/// One pattern for each of so many kinds, (kinds, shape..), the same for the same seed. It is constant along all but
/// its first dimension (for images: a colour), so that convolution and pooling keep it; there its size is 1, to
/// broadcast.
at::Tensor fixed_patterns(const std::vector<std::int64_t>& shape, std::int64_t kinds, std::uint64_t seed);

/// Colour images (batch, 3, size, size) of at most eight of the classes, and their class numbers (batch).
Batch labelled_images(std::int64_t size, std::int64_t classes, std::int64_t batch, std::uint64_t seed);
/// Cross entropy of scores (batch, classes) against class numbers (batch).
at::Tensor classification_loss(const Tensors& output, const Tensors& target);

/// Token numbers, int64 (batch, length): each sample counts up from a random start through a few of the `vocabulary`,
/// over and over. Which tokens occur is learned within a few steps, which one follows in some more.
at::Tensor counting_tokens(std::int64_t vocabulary, std::int64_t length, std::int64_t batch, std::uint64_t seed);
}  // namespace pipescope
