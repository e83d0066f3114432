#pragma once

#include "simulator/pipeline_options.h"
#include "tests/simulator/profiles.h"

#include <algorithm>
#include <random>

namespace pipescope {
/// Layers of random costs; some alias or keep their input or output. With a skip on request.
inline Profile random_profile(std::mt19937& random, std::size_t layers, bool with_skip) {
    const auto up_to = [&](int most) { return static_cast<double>(random() % static_cast<unsigned>(most)); };
    Profile profile = profile_of({});
    profile.samples = {1, 3};
    const auto array = [&](int most) {
        const double value = up_to(most);
        return PerSize{value, value * 3 + up_to(10)};
    };
    profile.input_bytes = array(100);
    profile.loss_ns = array(100);
    profile.loss_transient_bytes = array(300);
    for (std::size_t l = 0; l < layers; ++l) {
        LayerProfile layer;
        layer.name = "l" + std::to_string(l);
        layer.forward_ns = array(1000);
        layer.recompute_ns = array(1000);
        layer.backward_ns = array(2000);
        layer.output_bytes = array(100);
        layer.saved_bytes = array(100);
        layer.transient_bytes = array(100);
        layer.parameter_bytes = layer.gradient_bytes = static_cast<Bytes>(up_to(1000));
        layer.buffer_bytes = layer.statistic_bytes = l % 3 == 1 ? 150 : 0;
        layer.keeps_input = random() % 2 == 0;
        layer.keeps_output = random() % 2 == 0;
        layer.aliases_input = l > 0 && random() % 5 == 0;
        layer.passes_gradient = l > 0 && random() % 5 == 0;
        if (layer.aliases_input) {
            layer.output_bytes = profile.layers.back().output_bytes;
        }
        profile.layers.push_back(layer);
    }
    if (with_skip && layers >= 3) {
        profile.layers[random() % (layers / 2)].stash["s"] = array(50);
        profile.layers[layers / 2 + random() % (layers - layers / 2)].pop = {"s"};
    }
    return profile;
}

/// The same, if there is a skip, with more layers that pop it, or with a skip of whole numbers.
inline Profile with_readers(Profile profile, std::mt19937& random) {
    bool is_stashed = false;
    for (LayerProfile& layer : profile.layers) {
        if (is_stashed && layer.pop.empty() && random() % 2 == 0) {
            layer.pop = {"s"};
        }
        if (layer.stash.contains("s")) {
            is_stashed = true;
            if (random() % 5 == 0) {
                layer.without_gradient = {"s"};
            }
        }
    }
    return profile;
}

/// The same with a parameter that the first and the last layer share.
inline Profile with_shared(Profile profile) {
    LayerProfile& first = profile.layers.front();
    LayerProfile& last = profile.layers.back();
    if (profile.layers.size() > 1 && first.parameter_bytes > 0) {
        first.shared["w"] = last.shared["w"] = {first.parameter_bytes, first.gradient_bytes};
    }
    profile.optimizer_ns = 300;
    return profile;
}

inline Balance random_balance(std::mt19937& random, std::size_t layers, int n) {
    std::vector<std::size_t> cuts(layers - 1);
    for (std::size_t k = 0; k < cuts.size(); ++k) {
        cuts[k] = k + 1;
    }
    std::shuffle(cuts.begin(), cuts.end(), random);
    cuts.resize(static_cast<std::size_t>(n - 1));
    cuts.push_back(0);
    cuts.push_back(layers);
    std::sort(cuts.begin(), cuts.end());
    std::vector<std::int64_t> parts;
    for (std::size_t k = 1; k < cuts.size(); ++k) {
        parts.push_back(static_cast<std::int64_t>(cuts[k] - cuts[k - 1]));
    }
    return Balance(parts);
}

/// n lanes with or without links, of equal or different speeds, on one or several devices. Micro-batches of 1 to 3
/// samples.
inline PipelineOptions random_options(std::mt19937& random, const Balance& balance) {
    const std::size_t n = balance.num_partitions();
    PipelineOptions options;
    options.balance = balance;
    options.chunks = 1 + static_cast<std::int64_t>(random() % 6);
    options.batch = options.chunks * static_cast<std::int64_t>(1 + random() % 2);
    options.checkpoint = static_cast<Checkpoint>(random() % 3);
    if (random() % 2 == 0) {
        options.hardware.link = {static_cast<double>(random() % 2) * 1e8, static_cast<double>(random() % 2) * 300};
    }
    if (random() % 3 == 0) {
        for (std::size_t lane = 0; lane < n; ++lane) {
            options.hardware.speeds.push_back(0.5 + static_cast<double>(random() % 3) / 2);
        }
    }
    if (random() % 3 == 0) {
        for (std::size_t lane = 0; lane < n; ++lane) {
            options.hardware.devices.push_back(random() % 2 == 0 ? "cpu" : "cuda:" + std::to_string(lane));
        }
    }
    return options;
}
}  // namespace pipescope
