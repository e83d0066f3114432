#pragma once

#include "engine/layer.h"

#include <cstdint>

namespace pipescope {
// Options of the zoo's models. Defaults are in zoo.cpp, where --help reads them.

struct MlpOptions {
    std::int64_t layers;
    std::int64_t width;
};
/// Linear layers of one width with ReLU between them. Learns a linear map. Input and target: (batch, width).
ModelSpec mlp(const MlpOptions& options);

struct TransformerOptions {
    std::int64_t layers;
    std::int64_t width;
    std::int64_t heads;  ///< must divide the width
    std::int64_t sequence;
    std::int64_t vocabulary;
    double dropout;
};
/// Decoder-only language model, pre-norm (arXiv 2002.04745): an embedding layer, `layers` blocks, a head layer. Input
/// and target: int64 token numbers (batch, sequence). The target is shifted by one token.
ModelSpec transformer(const TransformerOptions& options);

struct UnetOptions {
    std::int64_t blocks;    ///< B: convolution blocks per cell
    std::int64_t channels;  ///< C: channels of the outermost cell
    std::int64_t size;      ///< side of the square input image
};
/// The simplified U-Net of torchgpipe's benchmarks (arXiv 2004.09910, section 4.2), flattened to 44 B + 21 layers with
/// five long skips. Input: (batch, 3, size, size). Target: a mask (batch, 1, size, size).
ModelSpec unet(const UnetOptions& options);

struct AmoebaNetOptions {
    std::int64_t layers;   ///< L: normal cells, a multiple of 3
    std::int64_t filters;  ///< D: channels of the first normal cells, a multiple of 8
    std::int64_t size;     ///< side of the square input image, a multiple of 32
    std::int64_t classes;
};
/// AmoebaNet-D (arXiv 1802.01548) of torchgpipe's benchmarks: L + 6 layers with pairs of tensors between the cells.
/// Input: (batch, 3, size, size). Target: class numbers (batch).
ModelSpec amoebanet(const AmoebaNetOptions& options);

struct ResnetOptions {
    std::int64_t width;  ///< channels of the first convolution; 64 in the paper
    std::int64_t size;   ///< side of the square input image
    std::int64_t classes;
};
/// ResNet-101 (arXiv 1512.03385) of torchgpipe's benchmarks, flattened to 370 layers with 33 skips. Input: (batch, 3,
/// size, size). Target: class numbers (batch).
ModelSpec resnet101(const ResnetOptions& options);
}  // namespace pipescope
